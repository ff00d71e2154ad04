"""Taking in the bytes of an upload: from the line into the staged file, and the ranges into the session.

What arrived counts: before any error goes up (the line broke, the disk is full, the process stops), the bytes that
came before it are written and recorded.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from uuid import UUID

from dms_ingest.buffers import Buffers
from dms_ingest.staging import Busy, StagedFile, Staging
from dms_ingest.upload_sessions import Session, UploadClosed, get_session, record_received
from nexarch.auth import User
from nexarch.errors import Conflict, InsufficientStorage, Invalid, TooLarge
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

# In a long request, after so many bytes they are recorded, so that a killed process loses no more than them.
_RECORD_EVERY = 64 << 20


class BeyondEnd(TooLarge):
    """The bytes would go beyond the announced size; those up to it are kept where they were sent."""

    code = "beyond-announced-size"
    title = "More bytes than announced"


class OffsetBeyondEnd(Invalid):
    """The offset lies beyond the announced size."""

    code = "offset-beyond-end"
    title = "The offset lies beyond the end"


class UploadCompleting(Conflict):
    """The upload is just being completed or ended, so it takes no bytes."""

    code = "upload-completing"
    title = "The upload is being completed"


class LineSilent(Conflict):
    """The line was silent for too long; what arrived on it is kept."""

    code = "line-silent"
    title = "The line was silent for too long"


class StagingFull(InsufficientStorage):
    """The disk for uploads is full; the ranges that lie on it are recorded, send the others later."""

    code = "staging-full"
    title = "The disk for uploads is full"


class Line:
    """The body of one request, which either side may break off. `read` returns some bytes, b"" at the end."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], idle_s: float) -> None:
        self._read = read
        self._idle_s = idle_s
        self._deadline: asyncio.Timeout | None = None
        self._cut = False

    async def next(self) -> bytes:
        """The next bytes; raises what the line raises, LineSilent, and UploadCompleting after `cut`."""
        if self._cut:
            raise UploadCompleting("The upload is being completed or ended.")
        try:
            async with asyncio.timeout(self._idle_s) as self._deadline:
                return await self._read()
        except TimeoutError as error:
            if self._cut:
                raise UploadCompleting("The upload is being completed or ended.") from error
            raise LineSilent(f"Nothing arrived for {self._idle_s:g} seconds.") from error
        finally:
            self._deadline = None

    def cut(self) -> None:
        """Break the line off now, whoever is waiting on it."""
        self._cut = True
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time())


class Receiver:
    """Receives the bytes of all uploads of this process. `count` is told how many came, for the metrics."""

    def __init__(
        self,
        tenants: TenantPools,
        staging: Staging,
        *,
        lifetime_s: float,
        idle_s: float,
        count: Callable[[int], None],
    ) -> None:
        self._tenants = tenants
        self._staging = staging
        self._buffers = Buffers()
        self._lifetime_s = lifetime_s
        self._idle_s = idle_s
        self._count = count
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

    async def receive(self, user: User, session: Session, offset: int, read: Callable[[], Awaitable[bytes]]) -> None:
        """Take bytes in from `offset` on until `read` returns none, however often they come.

        Raises what `read` raises, and BeyondEnd, LineSilent, StagingFull, UploadCompleting, UploadNotFound.
        """
        try:
            file = await run_in_thread(self._staging.open_shared, user.tenant, session.id)
        except Busy as error:
            raise UploadCompleting("The upload is being completed or ended.") from error
        line = Line(read, self._idle_s)
        self._lines[session.id].add(line)
        try:
            with self._buffers.two() as pair:
                # With the client's digest, complete finds out what a power cut took; without it nothing would.
                writer = StagedWriter(file, offset, pair, durable=session.sha256 is None)
                await self._copy(user.tenant, session, line, file, writer)
        finally:
            self._lines[session.id].discard(line)
            if not self._lines[session.id]:
                del self._lines[session.id]
            await run_in_thread(file.close)

    def cut(self, session_id: UUID) -> None:
        """Break off every line of a session in this process; what arrived on them is kept."""
        for line in self._lines.get(session_id, ()):
            line.cut()

    async def _copy(self, tenant: str, session: Session, line: Line, file: StagedFile, writer: "StagedWriter") -> None:
        recorded = writer.written

        async def record() -> None:
            nonlocal recorded
            start, stop = recorded, writer.written
            if start == stop:
                return
            if writer.durable:
                await run_in_thread(file.sync)
            async with self._tenants.acquire(tenant) as conn:
                await record_received(conn, session.id, start, stop, lifetime_s=self._lifetime_s)
            self._count(stop - start)
            recorded = stop

        try:
            while piece := await line.next():
                room = session.size_bytes - writer.taken
                await writer.take(memoryview(piece)[:room])
                if len(piece) > room:
                    raise BeyondEnd(
                        f"The upload was announced with {session.size_bytes} bytes.", size=session.size_bytes
                    )
                if writer.written - recorded >= _RECORD_EVERY:
                    await record()
        finally:
            try:
                await writer.finish()
            finally:
                await record()
        if writer.full:
            raise _full()


class StagedWriter:
    """Writes a stream into a staged file through two buffers: one is filled while a thread empties the other."""

    def __init__(
        self, file: StagedFile, offset: int, pair: tuple[memoryview, memoryview], *, durable: bool = False
    ) -> None:
        self._file = file
        self.durable = durable  # the file is going to be synced: begin early
        self._filling, self._emptying = pair
        self._held = 0  # bytes in _filling
        self._writing: asyncio.Task[None] | None = None
        self._failed = False
        self.taken = offset  # end of what `take` was given
        self.written = offset  # end of what lies in the file; it grows without a gap
        self.full = False  # the disk took less than it was given

    async def take(self, piece: memoryview) -> None:
        """Take some bytes; raises StagingFull, and OSError where the disk fails."""
        while len(piece):
            part = piece[: len(self._filling) - self._held]
            piece = piece[len(part) :]
            self._filling[self._held : self._held + len(part)] = part
            self._held += len(part)
            self.taken += len(part)
            if self._held == len(self._filling):
                await self._flush()

    async def finish(self) -> None:
        """Write what is still held, unless writing failed before; sets `full` rather than raise StagingFull."""
        await self._settle()
        if self._held and not self._failed:
            await self._flush()
            await self._settle()

    async def _flush(self) -> None:
        await self._settle()
        if self.full:
            raise _full()
        self._filling, self._emptying = self._emptying, self._filling
        self._writing = asyncio.create_task(self._write(self._emptying[: self._held]))
        self._held = 0

    async def _settle(self) -> None:
        """Wait until no thread writes, also if the caller is cancelled meanwhile and calls again."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            writing, self._writing = self._writing, None
            writing.result()

    async def _write(self, data: memoryview) -> None:
        self._failed = True
        count = await run_in_thread(self._write_in_thread, data, self.written)
        self.written += count
        self.full = self._failed = count < len(data)

    def _write_in_thread(self, data: memoryview, offset: int) -> int:
        count = self._file.write(data, offset)
        if self.durable:
            self._file.begin_sync(offset, count)
        return count


def _full() -> StagingFull:
    return StagingFull("The disk for uploads is full. What lies on it is recorded; send the rest later.")
