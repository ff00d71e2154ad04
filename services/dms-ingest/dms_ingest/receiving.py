"""Receiving the bytes of uploads: who may write to a staged file, who is cut off, what is kept in memory meanwhile."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from uuid import UUID

import structlog

from dms_ingest.buffers import Buffers
from dms_ingest.checksums import Checksum
from dms_ingest.intake import BeyondEnd, Intake
from dms_ingest.line import Line, Source
from dms_ingest.running_digest import RunningDigest, RunningDigests
from dms_ingest.sealed_file import SealedFile
from dms_ingest.staged_writing import StagedWriter
from dms_ingest.staging import Busy, StagedFile, Staging
from dms_ingest.staging_keys import StagingKeys
from dms_ingest.upload_sessions import (
    Session,
    UploadClosed,
    get_session,
    open_sessions,
)
from nexarch.auth import User
from nexarch.db import DATABASE_ERRORS
from nexarch.errors import Conflict, Invalid, NexarchError
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

log = structlog.get_logger(__name__)

# Who was cut off writes and records what it holds, which takes moments unless the disk or the database is slow.
_LOCK_TIMEOUT_S = 10.0
_LOCK_AGAIN_S = 0.02
# Whoever holds it in another process is asked for it over the event bus.
_ASK_AFTER_S = 0.1
_ASK_AGAIN_S = 1.0


class OffsetBeyondEnd(Invalid):
    """The offset lies beyond the announced size."""

    code = "offset-beyond-end"
    title = "The offset lies beyond the end"


class UploadCompleting(Conflict):
    """The upload is just being completed or ended, so it takes no bytes."""

    code = "upload-completing"
    title = "The upload is being completed"


class UploadTakenOver(Conflict):
    """Another request of the same upload came, so this one was ended; what arrived on it is kept."""

    code = "upload-taken-over"
    title = "Another request goes on with the upload"


class UploadLocked(Conflict):
    """Somebody else works on the upload and did not let go of it in time; ask again."""

    code = "upload-locked"
    status = HTTPStatus.LOCKED
    title = "The upload is in use"


class Receiver:
    """Receives the bytes of all uploads of this process.

    `count` is told how many came, for the metrics, and `wanted` which session another process should let go of.
    """

    def __init__(
        self,
        tenants: TenantPools,
        staging: Staging,
        keys: StagingKeys,
        *,
        lifetime_s: float,
        idle_s: float,
        count: Callable[[int], None],
        wanted: Callable[[UUID], Awaitable[None]],
    ) -> None:
        self._tenants = tenants
        self._staging = staging
        self._keys = keys
        self._digests = RunningDigests()
        self._buffers = Buffers()
        self._lifetime_s = lifetime_s
        self._idle_s = idle_s
        self._count = count
        self._wanted = wanted
        self._lines: defaultdict[UUID, set[Line]] = defaultdict(set)

    async def admit(self, user: User, session_id: UUID, offset: int, length: int | None) -> Session:
        """Check what can be known before the first byte; `length` is None where the client does not say.

        Raises UploadNotFound, UploadClosed, OffsetBeyondEnd and BeyondEnd.
        """
        async with self._tenants.acquire(user.tenant) as conn:
            session = await get_session(conn, user.id, session_id)
        if session.state != "open":
            raise UploadClosed("The upload is complete; it takes no more bytes.")
        size = session.size_bytes
        if offset > size:
            raise OffsetBeyondEnd(f"The upload ends at {size}.", size=size)
        if length is not None and offset + length > size:
            raise BeyondEnd(f"The upload was announced with {size} bytes.", size=size)
        return session

    async def receive(self, user: User, session: Session, offset: int, source: Source) -> Session:
        """Take bytes in from `offset` on until `source` ends, however often they come; returns the session then.

        Raises what `source` raises, and BeyondEnd, LineSilent, StagingFull, UploadCompleting, UploadNotFound,
        UploadScattered, and CoreApiAway where the session's key cannot be had.
        """
        try:
            file = await run_in_thread(self._staging.open_shared, user.tenant, session.id)
        except Busy as error:
            raise UploadCompleting("The upload is being completed or ended.") from error
        try:
            return await self.receive_into(file, user, session, offset, source)
        finally:
            await self._give_back(user.tenant, session.id, file)

    @contextmanager
    def free(self, tenant: str, session_id: UUID) -> Iterator[StagedFile | None]:
        """The staged file with nobody else in it; None if there is none yet, or somebody is in it.

        For a file that this process had open a moment ago: the kernel knows it still, and to open, lock and close it
        takes 20 us and no disk. Two hops to a thread and back took 0.7 of the 8 ms of a chunk.
        """
        try:
            file = self._staging.open_alone(tenant, session_id, make=False)
        except (Busy, FileNotFoundError):
            yield None
            return
        try:
            yield file
        finally:
            file.close()

    @asynccontextmanager
    async def alone(self, tenant: str, session_id: UUID, *, to_complete: bool = False) -> AsyncIterator[StagedFile]:
        """The staged file with nobody else in it: who writes now is cut off, and what arrived of that is kept.

        They are told UploadTakenOver, or UploadCompleting. Raises UploadLocked where somebody holds it for too long.
        """
        cut = self.cut if to_complete else self.cut_for_another
        file = await self._take_over(session_id, partial(self._staging.open_alone, tenant, session_id), cut)
        try:
            yield file
        finally:
            await self._give_back(tenant, session_id, file)

    async def settle(self, tenant: str, session_id: UUID) -> None:
        """End a request that holds the staged file alone: when this returns, what it brought is recorded.

        Raises UploadLocked where somebody holds it for too long.
        """
        open_file = partial(self._staging.open_shared, tenant, session_id)
        file = await self._take_over(session_id, open_file, self.cut_for_another)
        await self._give_back(tenant, session_id, file)

    async def receive_into(
        self,
        file: StagedFile,
        user: User,
        session: Session,
        offset: int,
        source: Source,
        checksum: Checksum | None = None,
    ) -> Session:
        """Take bytes into an open file, as `receive` does; with a checksum all of them count or, on any error, none.

        Raises ChecksumMismatch and what `receive` raises.
        """
        line = Line(source, self._idle_s)
        self._lines[session.id].add(line)
        try:
            async with self._keys.lend(user, session.id) as key:
                sealed = SealedFile(file, key, session.id)
                with self._digests.following(session.id, offset) as digest:
                    # With the client's digest, complete finds out what a power cut took; without it nothing would.
                    durable = session.sha256 is None
                    writer = StagedWriter(sealed, offset, self._buffers, digest, durable=durable)
                    intake = Intake(
                        self._tenants,
                        user.tenant,
                        session,
                        line,
                        writer,
                        checksum,
                        lifetime_s=self._lifetime_s,
                        count=self._count,
                    )
                    return await intake.take_in()
        finally:
            self._lines[session.id].discard(line)
            if not self._lines[session.id]:
                del self._lines[session.id]

    def digest(self, session: Session) -> RunningDigest | None:
        """The digest of an upload all of whose bytes came through this process in order, and recently."""
        return self._digests.whole(session.id, session.size_bytes)

    def forget(self, session_id: UUID) -> None:
        """Let go of what is kept in memory for an upload that is over."""
        self._digests.forget(session_id)

    def cut(self, session_id: UUID, why: NexarchError | None = None) -> None:
        """Break off every line of a session in this process; what arrived on them is kept."""
        for line in self._lines.get(session_id, ()):
            line.cut(why or UploadCompleting("The upload is being completed or ended."))

    def cut_for_another(self, session_id: UUID) -> None:
        """Break off every line of a session in this process, because another request goes on with it."""
        self.cut(session_id, UploadTakenOver("Another request goes on with this upload."))

    async def _give_back(self, tenant: str, session_id: UUID, file: StagedFile) -> None:
        """Close a staged file; one without bytes, made for an upload that ended while we waited for it, is removed.

        An upload that ends after the question is asked has its file removed by whoever ends it.
        """
        if await run_in_thread(file.close):
            return
        try:
            async with self._tenants.acquire(tenant) as conn:
                is_over = not await open_sessions(conn, [session_id])
            if is_over:
                await run_in_thread(self._staging.remove, tenant, session_id)
        except (NexarchError, *DATABASE_ERRORS) as error:  # then the sweep of the staging folder removes it
            log.warning("empty staged file not removed", session=str(session_id), reason=str(error))

    async def _take_over(
        self, session_id: UUID, open_file: Callable[[], StagedFile], cut: Callable[[UUID], None]
    ) -> StagedFile:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _LOCK_TIMEOUT_S
        ask_at = loop.time() + _ASK_AFTER_S
        while True:
            try:
                return await run_in_thread(open_file)
            except Busy as error:
                if loop.time() >= give_up_at:
                    raise UploadLocked("Another request works on this upload.", retry_after_s=1) from error
            cut(session_id)
            if session_id not in self._lines and loop.time() >= ask_at:
                await self._wanted(session_id)
                ask_at = loop.time() + _ASK_AGAIN_S
            await asyncio.sleep(_LOCK_AGAIN_S)
