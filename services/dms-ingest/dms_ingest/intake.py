"""The bytes of one request: from the line, sealed, into the staged file, and the ranges into the session."""

import asyncio
from collections.abc import Callable

from dms_ingest.checksums import Checksum
from dms_ingest.line import Line
from dms_ingest.staged_writing import StagedWriter
from dms_ingest.staging import StagingFull
from dms_ingest.upload_sessions import Session, extend_session, record_received
from nexarch.errors import TooLarge
from nexarch.tenancy import TenantPools
from nexarch.threads import run_in_thread

# In a long request what came is recorded after so many bytes, and after so many seconds (or a quarter of the
# session's lifetime): a killed process loses no more than that, and a slow line does not outlive its session.
_RECORD_EVERY = 64 << 20
_RECORD_EVERY_S = 60.0


class BeyondEnd(TooLarge):
    """The bytes would go beyond the announced size; those up to it are kept where they were sent."""

    code = "beyond-announced-size"
    title = "More bytes than announced"


class Intake:
    """Takes in what comes over one line; `count` is told how many bytes lie in the staged file and in the session.

    What arrived counts: before any error goes up (the line broke, the disk is full, the process stops), the bytes that
    came before it are written and recorded. With a checksum all of them count or, on any error, none.
    """

    def __init__(
        self,
        tenants: TenantPools,
        tenant: str,
        session: Session,
        line: Line,
        writer: StagedWriter,
        checksum: Checksum | None,
        *,
        lifetime_s: float,
        count: Callable[[int], None],
    ) -> None:
        self._tenants = tenants
        self._tenant = tenant
        self._session = session
        self._line = line
        self._writer = writer
        self._checksum = checksum
        self._lifetime_s = lifetime_s
        self._live_on_every_s = min(_RECORD_EVERY_S, lifetime_s / 4)
        self._count = count
        self._room = memoryview(b"")
        self._recorded = writer.written

    async def take_in(self) -> Session:
        """Take in what the line brings, to its end, and return the session as it is then.

        Raises what the line raises, BeyondEnd, StagingFull, ChecksumMismatch and UploadScattered.
        """
        counts = self._checksum is None
        try:
            await self._read_all()
            if self._checksum is not None:
                self._checksum.verify()
                counts = True
        finally:
            try:
                await self._writer.finish()
            finally:
                if counts and (self._checksum is None or not self._writer.full):
                    await self._record()
        if self._writer.full:
            raise StagingFull
        return self._session

    async def _read_all(self) -> None:
        loop, size, writer = asyncio.get_running_loop(), self._session.size_bytes, self._writer
        lives_on_at = loop.time() + self._live_on_every_s
        while writer.taken < size:
            self._room = (await writer.room())[: size - writer.taken]
            if not await self._line.read_into(self._room, self._took):
                return
            if self._checksum is None and writer.written - self._recorded >= _RECORD_EVERY:
                await self._record()
            if loop.time() >= lives_on_at:
                await self._live_on()
                lives_on_at = loop.time() + self._live_on_every_s
        await _expect_end(self._line, size)

    def _took(self, count: int) -> None:
        if self._checksum is not None:
            self._checksum.update(self._room[:count])
        self._room = self._room[count:]
        self._writer.took(count)

    async def _live_on(self) -> None:
        """Keep the session from expiring while bytes come."""
        if self._checksum is None:
            await self._writer.finish()
            await self._record()
            return
        async with self._tenants.acquire(self._tenant) as conn:
            await extend_session(conn, self._session.id, lifetime_s=self._lifetime_s)

    async def _record(self) -> None:
        start, stop = self._recorded, self._writer.written
        if start == stop:
            return
        if self._writer.durable:
            await run_in_thread(self._writer.sync)
        async with self._tenants.acquire(self._tenant) as conn:
            self._session = await record_received(conn, self._session.id, start, stop, lifetime_s=self._lifetime_s)
        self._count(stop - start)
        self._recorded = stop


async def _expect_end(line: Line, size_bytes: int) -> None:
    """Raise BeyondEnd if more comes."""
    beyond = 0

    def took(count: int) -> None:
        nonlocal beyond
        beyond += count

    while not beyond and await line.read_into(memoryview(bytearray(1)), took):
        pass
    if beyond:
        raise BeyondEnd(f"The upload was announced with {size_bytes} bytes.", size=size_bytes)
