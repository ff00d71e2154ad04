"""Uploads as tus 1.0 sees them: bytes come one after the other, and the last one makes the document.

They are the sessions of the JSON face; the offset of tus is the end of what came without a gap. Whoever asks for the
offset, or sends from it, wants to go on: a request that still holds the upload is ended, so that a line which is half
open blocks nobody, and two that send at one offset never mix.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from dms_ingest.admission import admit_upload
from dms_ingest.checksums import Checksum
from dms_ingest.completing import Completer, UploadIncomplete
from dms_ingest.concatenating import Concatenator, read_parts
from dms_ingest.duplicates import DuplicateFile
from dms_ingest.ending import end_upload
from dms_ingest.intake import BeyondEnd
from dms_ingest.line import Source
from dms_ingest.receiving import Receiver, UploadCompleting, UploadLocked
from dms_ingest.settings import Settings
from dms_ingest.staging import StagedFile, Staging
from dms_ingest.staging_keys import StagingKeys
from dms_ingest.upload_sessions import (
    LengthFixed,
    NewSession,
    Session,
    UploadClosed,
    UploadNotFound,
    create_session,
    delete_complete,
    forget_received,
    get_session,
    set_length,
)
from nexarch.auth import User
from nexarch.db import DATABASE_ERRORS
from nexarch.errors import Conflict, Forbidden, InsufficientStorage, Invalid, Unavailable
from nexarch.tenancy import TenantPools

log = structlog.get_logger(__name__)

_MOST_OWNERS = 4096  # uploads whose owner is remembered, about 200 bytes each


class OffsetConflict(Conflict):
    """The chunk begins elsewhere than where the upload ends by now: `offset`, and the header `Upload-Offset`."""

    code = "offset-conflict"
    title = "The upload ends elsewhere"

    def __init__(self, offset: int) -> None:
        super().__init__(f"The upload goes on at {offset}.", offset=offset)
        self.offset = offset


class FinalUpload(Forbidden):
    """The upload is put together from others; it takes no bytes of its own."""

    code = "final-upload"
    title = "The upload takes no bytes"


class DuplicateUpload(Invalid):
    """A document has these bytes already: revision `revision` of `document_id`.

    The JSON face says so with 409 `duplicate-file`. To tus clients that is a wrong offset: they would send it again.
    """

    code = "duplicate-upload"
    title = "The file is there already"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What a request brings: bytes from `offset` on, until `source` ends."""

    offset: int
    size: int | None  # None: the client does not say
    total: int | None  # the length of the whole upload, where it was deferred and is said now
    checksum: Checksum | None
    source: Source
    go_on: Callable[[], Awaitable[None]]  # called once before anything is read: the client may wait for it


class TusUploads:
    """The uploads of all tenants in this process."""

    def __init__(
        self,
        settings: Settings,
        tenants: TenantPools,
        staging: Staging,
        keys: StagingKeys,
        receiver: Receiver,
        completer: Completer,
    ) -> None:
        self._settings = settings
        self._tenants = tenants
        self._staging = staging
        self._receiver = receiver
        self._completer = completer
        self._concatenator = Concatenator(tenants, staging, keys, receiver, lifetime_s=settings.upload_lifetime_s)
        self._owners: OrderedDict[UUID, UUID] = OrderedDict()  # of uploads that chunks came for; they never change

    async def create(self, user: User, new: NewSession, first: Chunk | None) -> Session:
        """Open an upload and take its first chunk; nobody learns the id of one whose first chunk failed: it is ended.

        Unless it is complete: the commit may arrive though its answer does not. Raises what `append` and
        `create_session` raise.
        """
        async with self._tenants.acquire(user.tenant) as conn:
            session = await create_session(
                conn, user.id, new, lifetime_s=self._settings.upload_lifetime_s, idempotency_key=None
            )
        try:
            return await self._finish(user, session) if first is None else await self.append(user, session.id, first)
        except Exception:  # whatever it was, it goes up when the upload is ended
            try:
                await self._end_open(user, session.id)
            except UploadClosed:
                return await self._get(user, session.id)
            except (UploadNotFound, UploadLocked):  # then it is ended, or somebody sees to it
                pass
            raise

    async def concatenate(self, user: User, new: NewSession, parts: Sequence[UUID]) -> Session:
        """Make one file of parts, in their order; `new.size_bytes` is set here.

        Raises UploadNotFound, UploadIncomplete, PartsUsed, UploadLocked, what `create_session` and what completing
        raise.
        """
        sessions = await read_parts(self._tenants, user, parts)
        size = sum(part.size_bytes for part in sessions)
        async with self._tenants.acquire(user.tenant) as conn:
            await admit_upload(conn, self._settings, mime_type=new.mime_type, size_bytes=size)
        final = await self._concatenator.concatenate(user, replace(new, size_bytes=size), sessions)
        final = await self._finish(user, final)
        if final.state != "complete":
            raise UploadIncomplete("The disk has lost bytes of the file; put it together again.")
        await self._concatenator.let_go(user, final, sessions)
        return final

    async def look(self, user: User, session_id: UUID) -> Session:
        """The upload once nobody writes into it; one that is whole becomes its document first.

        So whoever lost the answer to the last chunk learns here what became of it. Where no document can be made now,
        the last byte does not count either: whoever sends it again is told why. Raises UploadNotFound, UploadLocked and
        what completing raises.
        """
        session = await self._get(user, session_id)
        if session.state == "open" and session.concat_kind != "final" and not session.is_whole():
            await self._receiver.settle(user.tenant, session_id)
            session = await self._get(user, session_id)
        try:
            return await self._finish(user, session)
        except (Unavailable, InsufficientStorage, *DATABASE_ERRORS) as error:
            if session.size_bytes == 0:
                raise
            log.warning("upload not completed", session=str(session_id), reason=type(error).__name__)
            # One of parts takes no bytes, and has no offset before it is complete.
            return session if session.concat_kind == "final" else await self._without_last_byte(user, session)

    async def append(self, user: User, session_id: UUID, chunk: Chunk) -> Session:
        """Take a chunk in; after the last one the session is complete, unless it is a part.

        Raises UploadNotFound, FinalUpload, OffsetConflict, LengthFixed, BeyondEnd, UploadLocked, what receiving raises
        and what completing raises.
        """
        before = await self._append(user, session_id, chunk)
        after = await self._finish(user, before)
        if after.offset() < before.offset():  # 204 would say that what came is kept
            raise OffsetConflict(after.offset())
        return after

    async def end(self, user: User, session_id: UUID) -> None:
        """End an upload; of a complete one the document stays, and the upload is forgotten.

        Raises UploadNotFound and UploadLocked.
        """
        try:
            await self._end_open(user, session_id)
        except UploadClosed:
            async with self._tenants.acquire(user.tenant) as conn:
                await delete_complete(conn, session_id)

    async def _end_open(self, user: User, session_id: UUID) -> None:
        """End an upload. Raises UploadNotFound, UploadLocked and UploadClosed."""
        try:
            await end_upload(self._tenants, self._staging, self._receiver, self._completer, user, session_id)
        except UploadCompleting as error:
            raise UploadLocked(error.detail, retry_after_s=1) from error

    async def _append(self, user: User, session_id: UUID, chunk: Chunk) -> Session:
        if self._owners.get(session_id) == user.id:
            with self._receiver.free(user.tenant, session_id) as file:
                if file is not None:  # as nearly always after the first chunk: then one look at the row is enough
                    return await self._append_alone(user, session_id, chunk, file)
        # Nobody is cut off or kept out, and no file made, for what is not theirs or takes no bytes.
        session = await self._get(user, session_id)
        self._remember_owner(user, session_id)
        if not _takes_bytes(session):
            _refuse_misplaced(session, chunk)
            return session
        async with self._receiver.alone(user.tenant, session_id) as file:
            return await self._append_alone(user, session_id, chunk, file)

    async def _append_alone(self, user: User, session_id: UUID, chunk: Chunk, file: StagedFile) -> Session:
        session = await self._get(user, session_id)
        takes_bytes = _takes_bytes(session)
        _refuse_misplaced(session, chunk)
        if not takes_bytes:
            return session
        if chunk.total is not None:
            session = await self._settle_length(user, session, chunk.total)
            _refuse_misplaced(session, chunk)
        if chunk.checksum is not None and session.ranges() and session.ranges()[-1][1] > chunk.offset:
            # The JSON face brought bytes from further on. A chunk that is refused may lie over them.
            async with self._tenants.acquire(user.tenant) as conn:
                await forget_received(conn, session_id, [(chunk.offset, session.size_bytes)])
        await chunk.go_on()
        return await self._receiver.receive_into(file, user, session, chunk.offset, chunk.source, chunk.checksum)

    def _remember_owner(self, user: User, session_id: UUID) -> None:
        self._owners[session_id] = user.id
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    async def _settle_length(self, user: User, session: Session, total: int) -> Session:
        if not session.length_deferred:
            if total != session.size_bytes:
                raise LengthFixed(f"The upload has {session.size_bytes} bytes.", size=session.size_bytes)
            return session
        async with self._tenants.acquire(user.tenant) as conn:
            await admit_upload(conn, self._settings, mime_type=session.mime_type, size_bytes=total)
            await set_length(conn, session.id, total)
            return await get_session(conn, user.id, session.id)

    async def _finish(self, user: User, session: Session) -> Session:
        """Complete a session that is whole, and return it as it is then: open still where the disk has lost bytes."""
        if session.state != "open" or session.concat_kind == "partial" or not session.is_whole():
            return session
        try:
            with duplicates_told():
                await self._completer.complete(user, session.id)
        except UploadIncomplete:
            log.warning("a whole upload lacks bytes again", session=str(session.id))
        except UploadCompleting as error:
            raise UploadLocked(error.detail, retry_after_s=1) from error
        return await self._get(user, session.id)

    async def _without_last_byte(self, user: User, session: Session) -> Session:
        """Take back the last byte of an upload that could not be completed, unless it is complete by now.

        tus-js-client would begin anew with an upload that cannot be asked for, and take a whole one for stored.
        """
        last_byte = (session.size_bytes - 1, session.size_bytes)
        # Whoever has the file alone knows that nobody is completing the upload.
        async with self._receiver.alone(user.tenant, session.id), self._tenants.acquire(user.tenant) as conn:
            await forget_received(conn, session.id, [last_byte])
            return await get_session(conn, user.id, session.id)

    async def _get(self, user: User, session_id: UUID) -> Session:
        async with self._tenants.acquire(user.tenant) as conn:
            return await get_session(conn, user.id, session_id)


@contextmanager
def duplicates_told() -> Iterator[None]:
    """Within the block a DuplicateFile becomes a DuplicateUpload."""
    try:
        yield
    except DuplicateFile as error:
        raise DuplicateUpload(error.detail, **error.members) from error


def _takes_bytes(session: Session) -> bool:
    """Whether more may come of it; raises FinalUpload."""
    if session.concat_kind == "final":
        raise FinalUpload("This upload is put together from others and takes no bytes.")
    return session.state == "open" and session.concat_into is None


def _refuse_misplaced(session: Session, chunk: Chunk) -> None:
    """Raise OffsetConflict or BeyondEnd before a byte is taken."""
    if chunk.offset != session.offset():
        raise OffsetConflict(session.offset())
    if chunk.size is not None and chunk.offset + chunk.size > session.size_bytes:
        raise BeyondEnd(f"The upload ends at {session.size_bytes}.", size=session.size_bytes)
