"""Whether an upload is taken: what the service and the tenant's settings say of its type and its size.

Asked twice: of the announcement, before any byte is sent, and of the bytes, before they are sealed, since an
announcement proves nothing.
"""

from uuid import UUID

from dms_ingest.contents import NothingInFile, ReadInto, inspect
from dms_ingest.duplicates import find_twin, refuse
from dms_ingest.media_types import check_allowed, settle_type
from dms_ingest.settings import Settings
from dms_ingest.staging import Staging
from dms_ingest.tenant_settings import TenantSettings, get_settings
from dms_ingest.upload_sessions import Session, abort_session
from nexarch.auth import User
from nexarch.db import Connection
from nexarch.errors import TooLarge
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread
from nexarch.usage import check_quota


class FileTooLarge(TooLarge):
    """The file is larger than the service, or the tenant, takes; `limit_bytes` is what is taken."""

    code = "file-too-large"
    title = "The file is too large"


async def admit_upload(
    conn: Connection,
    service: Settings,
    *,
    mime_type: str | None,
    size_bytes: int | None,
    sha256: bytes | None = None,
    document_id: UUID | None = None,
) -> int:
    """Refuse a file before any byte of it is sent, or return how many bytes it may have at the most.

    A type or size of None is not known yet: ask again when it is. Raises TypeNotAllowed, FileTooLarge, DuplicateFile
    and QuotaExceeded. A file that would be linked to bytes that are stored needs room for itself too, since only its
    bytes prove that it is theirs.
    """
    tenant = await get_settings(conn)
    if mime_type is not None:
        check_allowed(mime_type, allowed_types(service, tenant))
    limit = most_bytes(service, tenant)
    if size_bytes is not None:
        if size_bytes > limit:
            raise FileTooLarge("The file is too large.", limit_bytes=limit)
        await check_quota(conn, coming_bytes=size_bytes)
    if tenant.duplicates == "reject" and sha256 is not None and (twin := await find_twin(conn, sha256, document_id)):
        raise refuse(twin)
    return limit


def allowed_types(service: Settings, tenant: TenantSettings) -> frozenset[str]:
    """The tenant's own allow-list, or that of the service."""
    return service.allowed_types if tenant.allowed_types is None else frozenset(tenant.allowed_types)


def most_bytes(service: Settings, tenant: TenantSettings) -> int:
    """The largest file that is taken: a tenant may lower the limit of the service, not raise it."""
    if tenant.max_upload_bytes is None:
        return service.max_upload_bytes
    return min(service.max_upload_bytes, tenant.max_upload_bytes)


class Admission:
    """Looks at the staged bytes of an upload that is to be completed."""

    def __init__(self, tenants: TenantPools, staging: Staging, service: Settings) -> None:
        self._tenants = tenants
        self._staging = staging
        self._service = service

    async def accept(self, user: User, session: Session, read_into: ReadInto) -> str:
        """The type to store the file as. What sealing would only find out later is refused here, where it is cheap.

        Raises ContentMismatch and what `admit_upload` raises; and NothingInFile, which ends the upload, as nothing that
        its sender could still do would mend it. `read_into(buffer, offset)` reads the staged bytes.
        """
        try:
            shown = await run_in_thread(inspect, read_into, session.size_bytes)
        except NothingInFile:
            async with self._tenants.acquire(user.tenant) as conn:
                await abort_session(conn, session.id)
            await run_in_thread(self._staging.remove, user.tenant, session.id)
            raise
        mime_type = settle_type(session.mime_type, shown)
        async with self._tenants.acquire(user.tenant) as conn:
            await admit_upload(
                conn,
                self._service,
                mime_type=mime_type,
                size_bytes=session.size_bytes,
                sha256=session.sha256,
                document_id=session.document_id,
            )
        return mime_type
