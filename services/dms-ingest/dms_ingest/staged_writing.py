"""Writing the bytes of an upload as they come: sealed in a thread while the next ones arrive."""

import asyncio

from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import SealedFile
from dms_ingest.staging import StagingFull
from nexarch.threads import run_in_thread


class StagedWriter:
    """Writes a stream into a staged file through two buffers: one is filled while a thread empties the other."""

    def __init__(
        self,
        file: SealedFile,
        offset: int,
        pair: tuple[memoryview, memoryview],
        digest: RunningDigest | None = None,
        *,
        durable: bool = False,
    ) -> None:
        self._file = file
        self._digest = digest  # of all bytes before `offset`
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
        size = len(self._filling)
        while len(piece):
            # Up to where a multiple of the buffer's size ends in the upload: so most slots are written whole, and once.
            part = piece[: size - self.taken % size]
            piece = piece[len(part) :]
            self._filling[self._held : self._held + len(part)] = part
            self._held += len(part)
            self.taken += len(part)
            if self.taken % size == 0:
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
            raise StagingFull
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
        count = self._file.write(data, offset, self._digest)
        if self.durable:
            self._file.begin_sync(offset, count)
        return count
