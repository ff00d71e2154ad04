"""Writing the bytes of an upload as they come: sealed and written in one thread and hashed in another, while the next
ones arrive."""

import asyncio
from collections.abc import Callable
from functools import partial

from dms_ingest.buffers import Buffers
from dms_ingest.lanes import Lane
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import SealedFile
from dms_ingest.staging import StagingFull

# Buffers of one writer: one is filled, one written, one hashed, and one evens out. While there are plenty, the digest
# may lag further behind: then it catches up while the database records what came and the next request is on its way.
_ENOUGH = 4
_MOST = 12


class StagedWriter:
    """Writes a stream into a staged file, buffer by buffer.

    The digest may lag behind what is written by the buffers that are out, and go on when the writer has finished.
    """

    def __init__(
        self,
        file: SealedFile,
        offset: int,
        buffers: Buffers,
        digest: RunningDigest | None = None,
        *,
        durable: bool = False,
    ) -> None:
        self._file = file
        self._digest = digest  # of all bytes before `offset`
        self.durable = durable  # the file is going to be synced: begin early
        self._buffers = buffers
        self._out = 0  # buffers that are not given back yet
        self._freed = asyncio.Event()
        self._filling: memoryview | None = None
        self._held = 0  # bytes in _filling
        self._lane = Lane()
        self._stopped = False  # the disk failed, or is full: what comes after it would leave a gap
        self.taken = offset  # end of what came
        self.written = offset  # end of what lies in the file; it grows without a gap
        self.full = False  # the disk took less than it was given

    async def room(self) -> memoryview:
        """Where the next bytes go; waits while all buffers are out.

        Raises StagingFull, and OSError where the disk fails.
        """
        if self._stopped:
            await self.finish()
            raise StagingFull
        buffer = await self._buffer()
        # Up to where a multiple of the buffer's size ends in the upload: so most slots are written whole, and once.
        return buffer[self._held : self._held + len(buffer) - self.taken % len(buffer)]

    def took(self, count: int) -> None:
        """So many bytes lie in the room now."""
        assert self._filling is not None
        self._held += count
        self.taken += count
        if self.taken % len(self._filling) == 0:
            self._flush()

    def sync(self) -> None:
        """Return when what is written would survive a power cut; blocks."""
        self._file.sync()

    async def finish(self) -> None:
        """Return when what came lies in the file, or raise OSError; sets `full` rather than raise StagingFull.

        Also a caller who is cancelled waits to the end.
        """
        self._flush()
        await self._lane.idle()

    async def _buffer(self) -> memoryview:
        """The buffer to fill; waits while all are out."""
        while self._filling is None:
            if self._out < _ENOUGH or (self._out < _MOST and self._buffers.plenty()):
                self._out += 1
                self._filling = self._buffers.take()
            else:
                self._freed.clear()
                await self._freed.wait()
        return self._filling

    def _flush(self) -> None:
        buffer, held = self._filling, self._held
        self._filling, self._held = None, 0
        if held:
            assert buffer is not None
            release = partial(asyncio.get_running_loop().call_soon_threadsafe, self._release, buffer)
            self._lane.add(partial(self._write, buffer[:held], self.taken - held, release))
        elif buffer is not None:
            self._release(buffer)

    def _write(self, data: memoryview, offset: int, release: Callable[[], object]) -> None:
        """The work of the lane."""
        try:
            if not self._stopped:
                count = self._file.write(data, offset, self._digest)
                if self.durable:
                    self._file.begin_sync(offset, count)
                self.written += count
                self._stopped = self.full = count < len(data)
        except BaseException:
            self._stopped = True
            raise
        finally:
            if self._digest is None:
                release()
            else:
                self._digest.then(release)

    def _release(self, buffer: memoryview) -> None:
        self._buffers.give(buffer)
        self._out -= 1
        self._freed.set()
