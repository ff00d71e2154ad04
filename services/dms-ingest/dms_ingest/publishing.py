"""Making a stored file visible: all rows of a completed upload, in one transaction.

Whether the file is one that is there already is decided here, once its digest is known: nobody's announcement is
believed, and of clients that send the same bytes at once exactly one is the first.
"""

from dataclasses import replace

import structlog

from dms_ingest.copies import add_copy, prepare_copy
from dms_ingest.documents import create_document
from dms_ingest.downloads import KeyMissing
from dms_ingest.duplicates import find_twin, refuse, reserve_content
from dms_ingest.revisions import NewRevision, SealedRevision, add_revision
from dms_ingest.tenant_settings import get_settings
from dms_ingest.upload_sessions import Session, close_session
from nexarch import audit
from nexarch.audit import Action
from nexarch.auth import User
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import SealBroken
from nexarch.crypto.layout import NXO1
from nexarch.db import Connection
from nexarch.storage import ObjectNotFound, Storage
from nexarch.tenancy import TenantPools

log = structlog.get_logger(__name__)


class ClosedMeanwhile(Exception):
    """Another process completed or ended the session first."""


class Publisher:
    """Adds the rows of completed uploads."""

    def __init__(self, core: CoreClient, tenants: TenantPools, storage: Storage) -> None:
        self._core = core
        self._tenants = tenants
        self._storage = storage

    async def publish(self, user: User, session: Session, stored: NewRevision) -> bool:
        """Add the document, or its next revision, and close the session; False if the stored object is not needed.

        Then, by the tenant's policy, the revision refers to the object of another one with the same bytes, and `stored`
        has to be taken out of the store. Raises DuplicateFile, QuotaExceeded, DocumentNotFound, FolderNotFound,
        NameRefused, WrappingOutdated and ClosedMeanwhile.
        """
        source: SealedRevision | None = None
        copy: NewRevision | None = None
        while True:
            async with self._tenants.acquire(user.tenant) as conn, conn.transaction():
                twin = await _twin(conn, session, stored)
                if twin is None or (source is not None and twin.id == source.id):
                    linked = twin is not None and copy is not None
                    await _add_document(conn, session, stored)
                    if twin is not None and copy is not None:
                        await add_copy(conn, copy, twin)
                    else:
                        await add_revision(conn, stored)
                    if not await close_session(conn, session.id, stored.document_id, stored.id):
                        raise ClosedMeanwhile
                    await _tell(conn, stored, linked=linked)
                    return not linked
            # The link's key is asked for with no connection and no lock held; then the twin is looked for again.
            source, copy = twin, await self._copy_of(user, twin, stored)

    async def _copy_of(self, user: User, twin: SealedRevision, stored: NewRevision) -> NewRevision | None:
        """The revision with the object of its twin in the place of its own; None if that one is not whole.

        Whoever sends a file again because the one that is stored is damaged must not lose it too.
        """
        try:
            found = await self._storage.head(user.tenant, twin.storage_key)
            copy = await prepare_copy(
                self._core,
                twin,
                tenant=user.tenant,
                tenant_id=user.tenant_id,
                document_id=stored.document_id,
                revision_id=stored.id,
                user_id=user.id,
            )
        except (ObjectNotFound, KeyMissing, SealBroken) as error:
            log.warning("no link to a damaged revision", revision=str(twin.id), reason=type(error).__name__)
            return None
        if found != NXO1.object_size(twin.size_bytes):
            log.warning("no link to a damaged revision", revision=str(twin.id), reason="another size")
            return None
        return replace(copy, mime_type=stored.mime_type)


async def _tell(conn: Connection, stored: NewRevision, *, linked: bool) -> None:
    await audit.record(
        conn,
        Action.DOCUMENT_UPLOADED,
        user_id=stored.created_by,
        document_id=stored.document_id,
        revision_id=stored.id,
        details={"size": stored.size_bytes, "linked": linked},
    )


async def _twin(conn: Connection, session: Session, stored: NewRevision) -> SealedRevision | None:
    """The revision to link to, if the policy says so; DuplicateFile if it says that there may be none."""
    policy = (await get_settings(conn)).duplicates
    if policy == "allow":
        return None
    await reserve_content(conn, stored.checksum_sha256)
    twin = await find_twin(conn, stored.checksum_sha256, session.document_id)
    if twin is not None and policy == "reject":
        raise refuse(twin)
    return twin


async def _add_document(conn: Connection, session: Session, stored: NewRevision) -> None:
    if session.document_id is None:
        await create_document(
            conn,
            document_id=stored.document_id,
            name=session.filename,
            folder_id=session.folder_id,
            user_id=session.user_id,
        )
