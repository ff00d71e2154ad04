"""Whether an upload may begin: what the service and the tenant's settings say of its type and its size.

The same is asked again of the bytes when the upload is completed, since an announcement proves nothing.
"""

from dms_ingest.media_types import check_allowed
from dms_ingest.settings import Settings
from dms_ingest.tenant_settings import TenantSettings, get_settings
from nexarch.db import Connection
from nexarch.errors import TooLarge


class FileTooLarge(TooLarge):
    """The file is larger than the service, or the tenant, takes; `limit_bytes` is what is taken."""

    code = "file-too-large"
    title = "The file is too large"


async def admit_upload(conn: Connection, service: Settings, *, mime_type: str, size_bytes: int | None) -> None:
    """Refuse a file before any byte of it is sent; a size of None is not known yet: ask again when it is.

    Raises TypeNotAllowed and FileTooLarge.
    """
    tenant = await get_settings(conn)
    check_allowed(mime_type, allowed_types(service, tenant))
    limit = most_bytes(service, tenant)
    if size_bytes is not None and size_bytes > limit:
        raise FileTooLarge("The file is too large.", limit_bytes=limit)


def allowed_types(service: Settings, tenant: TenantSettings) -> frozenset[str]:
    """The tenant's own allow-list, or that of the service."""
    return service.allowed_types if tenant.allowed_types is None else frozenset(tenant.allowed_types)


def most_bytes(service: Settings, tenant: TenantSettings) -> int:
    """The largest file that is taken: a tenant may lower the limit of the service, not raise it."""
    if tenant.max_upload_bytes is None:
        return service.max_upload_bytes
    return min(service.max_upload_bytes, tenant.max_upload_bytes)
