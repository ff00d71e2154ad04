"""Completing an upload: one pass over the staged bytes, then one transaction.

The pass opens what was staged and seals it as an object, in two threads, with a bounded number of bytes in memory. It
hashes too, unless all bytes were hashed as they came (`dms_ingest.running_digest`). The object comes first and
the rows after it, so a crash at any point leaves everything or nothing that anybody can see: at worst an object
without a row, which the check of the store removes later.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from dms_ingest.admission import Admission
from dms_ingest.buffers import Buffers
from dms_ingest.publishing import ClosedMeanwhile, Publisher
from dms_ingest.receiving import Receiver, UploadCompleting, UploadLocked
from dms_ingest.revisions import NewRevision, WrappingOutdated
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import BytesLost, SealedFile
from dms_ingest.staged_reading import OtherBytes, StagedReading
from dms_ingest.staging import StagedFile, Staging
from dms_ingest.staging_keys import StagingKeys
from dms_ingest.turns import Turns
from dms_ingest.upload_sessions import Session, forget_received, get_session
from nexarch.auth import User
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import new_dek, wrap_dek
from nexarch.crypto.layout import object_aad
from nexarch.crypto.segments import Sealer
from nexarch.db import Connection, fetch_one
from nexarch.doorbell import Doorbell
from nexarch.errors import Conflict, Json, NexarchError
from nexarch.objects import seal_stream
from nexarch.storage import Storage, revision_key
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

log = structlog.get_logger(__name__)

MOST_RANGES = 1000  # of the missing ranges an answer names the first so many

_AT_ONCE = 4  # passes; more would only wait for the same processors and hold more memory
_LOOK_AT = 256 << 20  # bytes that a thread looks through in one go: a stop waits for it


class UploadIncomplete(Conflict):
    """Some bytes have not come; `missing` holds their ranges (`end` is the byte after the last)."""

    code = "upload-incomplete"
    title = "Some bytes have not come"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ids:
    document_id: UUID
    revision_id: UUID


class Completer:
    """Completes uploads, each once however many ask; after the commit `committed` is told the tenant."""

    def __init__(
        self,
        core: CoreClient,
        tenants: TenantPools,
        staging: Staging,
        keys: StagingKeys,
        storage: Storage,
        doorbell: Doorbell,
        receiver: Receiver,
        admission: Admission,
        publisher: Publisher,
        *,
        committed: Callable[[str], None],
    ) -> None:
        self._core = core
        self._tenants = tenants
        self._staging = staging
        self._keys = keys
        self._storage = storage
        self._doorbell = doorbell
        self._receiver = receiver
        self._admission = admission
        self._publisher = publisher
        self._committed = committed
        self._buffers = Buffers()
        self._turns = Turns(_AT_ONCE)
        self._running: dict[UUID, asyncio.Task[UUID]] = {}

    async def complete(self, user: User, session_id: UUID) -> UUID:
        """Make the upload a document, or its document's next revision, and return the document's id.

        Who asks again, at the same time or later, gets the same document. Raises UploadNotFound, UploadIncomplete, what
        `Admission.accept` and `Publisher.publish` raise (the target is gone, the quota is used up, the file is there
        already), DigestMismatch, UploadCompleting, InsufficientStorage, CoreApiAway.
        """
        async with self._tenants.acquire(user.tenant) as conn:
            session = await get_session(conn, user.id, session_id)
        if session.completed_document_id is not None:
            return session.completed_document_id
        _refuse_holes(session)
        if session.id not in self._running:
            task = asyncio.create_task(self._complete(user, session.id), name=f"complete {session.id}")
            self._running[session.id] = task
            task.add_done_callback(lambda _task: self._running.pop(session.id, None))
        # Shielded: the first who asked may go away while others wait for the same pass.
        return await asyncio.shield(self._running[session.id])

    def is_completing(self, session_id: UUID) -> bool:
        """Whether a pass over the session's bytes is running in this process."""
        return session_id in self._running

    async def close(self) -> None:
        """Stop what is running; nothing of it is left but perhaps an object without a row."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _complete(self, user: User, session_id: UUID) -> UUID:
        try:
            # All bytes are there, so who still sends is cut off and holds up nobody.
            async with (
                self._receiver.alone(user.tenant, session_id, to_complete=True) as file,
                self._turns.one(user.tenant),
            ):
                document_id = await self._store(user, session_id, file)
        except UploadLocked as error:
            raise UploadCompleting("Another process works on this upload.", retry_after_s=2) from error
        self._receiver.forget(session_id)
        self._keys.forget(session_id)
        try:
            await run_in_thread(self._staging.remove, user.tenant, session_id)
        except OSError as error:  # the sweep of the staging folder removes it later
            log.warning("staged file not removed", session=str(session_id), reason=str(error))
        return document_id

    async def _store(self, user: User, session_id: UUID, file: StagedFile) -> UUID:
        session, ids = await self._final(user, session_id)
        if session.completed_document_id is not None:
            return session.completed_document_id
        async with self._keys.lend(user, session_id) as key:
            staged = SealedFile(file, key, session_id)
            try:
                return await self._become_document(user, session, staged, ids)
            except BytesLost as error:
                await self._ask_again(user, session, staged, error.start)
                raise

    async def _become_document(self, user: User, session: Session, staged: SealedFile, ids: _Ids) -> UUID:
        mime_type = await self._admission.accept(user, session, staged.read_into)
        key = revision_key(ids.document_id, ids.revision_id)
        dek = new_dek()
        try:
            known = self._receiver.digest(session)
            revision = await self._seal(user, session, staged, ids, mime_type, key, dek, known)
        except OtherBytes:
            dek = new_dek()
            revision = await self._seal(user, session, staged, ids, mime_type, key, dek, None)
        await self._doorbell.arm(user.tenant)
        try:
            try:
                needed = await self._publisher.publish(user, session, revision)
            except WrappingOutdated:
                # The tenant's key was rotated since the pass began, and the old version retired already.
                wrapped, kek_version = await self._wrap(user, ids, dek)
                newer = replace(revision, wrapped_dek=wrapped, kek_version=kek_version)
                needed = await self._publisher.publish(user, session, newer)
        # Only what is certainly rolled back is taken out of the store again: where the connection broke, the commit
        # may have arrived.
        except ClosedMeanwhile:
            await self._remove_unneeded(user.tenant, key)
            async with self._tenants.acquire(user.tenant) as conn:
                winner = await get_session(conn, user.id, session.id)
            if winner.completed_document_id is None:
                raise UploadCompleting("The upload is open again; complete it again.") from None
            return winner.completed_document_id
        except NexarchError:
            await self._remove_unneeded(user.tenant, key)
            raise
        self._committed(user.tenant)
        if not needed:
            await self._remove_unneeded(user.tenant, key)
        return ids.document_id

    async def _remove_unneeded(self, tenant: str, key: str) -> None:
        """Take an object out of the store that no document refers to."""
        try:
            await self._storage.delete(tenant, key)
        except (OSError, NexarchError) as error:  # the check of the store removes it later
            log.warning("unneeded object not removed", tenant=tenant, object=key, reason=str(error))

    async def _final(self, user: User, session_id: UUID) -> tuple[Session, _Ids]:
        """The session now that nobody writes, whole, and the ids of what it becomes."""
        async with self._tenants.acquire(user.tenant) as conn:
            session = await get_session(conn, user.id, session_id)
            ids = await _new_ids(conn, session.document_id)
        if session.state == "open":
            _refuse_holes(session)
        return session, ids

    async def _ask_again(self, user: User, session: Session, staged: SealedFile, start: int) -> None:
        """Forget all that the disk has lost from `start` on; raises UploadIncomplete, which names it."""
        lost: list[tuple[int, int]] = []
        for offset in range(start, session.size_bytes, _LOOK_AT):
            lost += await run_in_thread(staged.lost, offset, min(offset + _LOOK_AT, session.size_bytes))
        log.warning("staged bytes lost", session=str(session.id), ranges=len(lost), first=start)
        async with self._tenants.acquire(user.tenant) as conn:
            await forget_received(conn, session.id, lost)
            _refuse_holes(await get_session(conn, user.id, session.id))

    async def _seal(
        self,
        user: User,
        session: Session,
        staged: SealedFile,
        ids: _Ids,
        mime_type: str,
        key: str,
        dek: bytes,
        known: RunningDigest | None,
    ) -> NewRevision:
        """Seal and store the staged bytes under keys that nothing else has.

        Raises DigestMismatch, BytesLost and, with a digest that is `known`, OtherBytes; nothing is stored then.
        """
        wrapped, kek_version = await self._wrap(user, ids, dek)
        await self._storage.ensure_bucket(user.tenant)
        sealer = Sealer(dek, object_aad(user.tenant_id, ids.document_id, ids.revision_id))
        reading = StagedReading(staged, session, known)
        with self._buffers.two() as pair:
            async with aclosing(reading.chunks(pair)) as chunks:
                await self._storage.put(user.tenant, key, seal_stream(sealer, chunks))
        return NewRevision(
            id=ids.revision_id,
            document_id=ids.document_id,
            checksum_sha256=reading.sha256,
            size_bytes=session.size_bytes,
            mime_type=mime_type,
            wrapped_dek=wrapped,
            kek_version=kek_version,
            created_by=user.id,
        )

    async def _wrap(self, user: User, ids: _Ids, dek: bytes) -> tuple[bytes, int]:
        """The object's key wrapped under the newest version of the tenant's key, and that version."""
        kek = await self._core.kek(user.tenant)
        wrapped = wrap_dek(
            kek.kek, dek, tenant_id=user.tenant_id, revision_id=ids.revision_id, kek_version=kek.kek_version
        )
        return wrapped, kek.kek_version


async def _new_ids(conn: Connection, document_id: UUID | None) -> _Ids:
    sql = "SELECT coalesce($1, uuidv7()) AS document_id, uuidv7() AS revision_id"
    return await fetch_one(conn, _Ids, sql, document_id)


def _refuse_holes(session: Session) -> None:
    if session.length_deferred:
        raise UploadIncomplete("How long the upload is has not been said.", missing=[])
    if session.concat_kind == "partial":
        raise UploadIncomplete("This is a part of a file; concatenate the parts.", missing=[])
    if missing := session.missing():
        ranges: list[Json] = [{"start": start, "end": end} for start, end in missing[:MOST_RANGES]]
        raise UploadIncomplete("Some bytes have not come; send the missing ranges.", missing=ranges)
