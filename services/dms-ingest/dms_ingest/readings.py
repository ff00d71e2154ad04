"""Readings: stored files on their way to many lines, of which only a few are open at once.

An open object holds megabytes (what was read, what was opened, what is read ahead) and, in S3, a connection. Most lines
of a crowd are slow, and need none of that while they take what was sent to them. So only some objects are open; for
another one an object is closed whose line stands still, or that has been open for its turn, and opened again where
that line goes on. To open one takes as long as to read a MiB or two: without turns a fast crowd would do little else.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress

from nexarch.finishing import to_its_end

_MOST_OPEN = 12  # docs/decisions/0022 has what that takes
_TURN = 4 << 20  # bytes that a line may take before its object is closed for another one
_STANDS_STILL_S = 0.05  # after a piece, whatever of its turn is left
_PIECE = 1 << 17  # bytes for each line of a crowd: until it has taken them it holds them, and its socket too

Open = Callable[[int], AbstractAsyncContextManager[AsyncIterator[memoryview]]]  # from a position on


class _Reading:
    """One file on its way; `position` is where its line goes on."""

    def __init__(self, open_at: Open, start: int, stop: int) -> None:
        self.open_at = open_at
        self.position = start
        self.opened_at = start
        self.stop = stop
        self.began = False
        self.chunks: AsyncIterator[memoryview] | None = None  # None: not open now
        self.closing = AsyncExitStack()
        self.rest = memoryview(b"")  # of the chunk that was read last

    def taken_away(self) -> AsyncExitStack:
        """What is to be closed; from now on it is not open for its line, which opens another one if it goes on."""
        self.chunks, self.rest = None, memoryview(b"")
        return self.closing


class Readings:
    """All of this process, at most `most_open` of them open."""

    def __init__(
        self,
        most_open: int = _MOST_OPEN,
        piece: int = _PIECE,
        *,
        turn: int = _TURN,
        stands_still_s: float = _STANDS_STILL_S,
    ) -> None:
        self._most_open = most_open
        self._piece = piece
        self._turn = turn
        self._stands_still_s = stands_still_s
        self._under_way = 0
        self._open = 0
        self._idle: OrderedDict[_Reading, float] = OrderedDict()  # open, and since when nobody waits for its next piece
        self._entering = asyncio.Lock()  # whoever is next to open one
        self._waits = False  # it waits, because all are at work
        self._changed = asyncio.Event()

    @property
    def is_crowd(self) -> bool:
        """Whether more are under way than may be open."""
        return self._under_way > self._most_open

    async def read(self, open_at: Open, start: int, stop: int) -> AsyncGenerator[memoryview, None]:
        """Yield the bytes from `start` up to but without `stop`; each view is good until the next is asked for.

        `open_at(position)` opens the file anew, from there to `stop`; also for no bytes it is called once. What it, and
        what it opens, raises comes up here.
        """
        reading = _Reading(open_at, start, stop)
        self._under_way += 1
        try:
            while piece := await self._next(reading):
                yield piece
        finally:
            self._under_way -= 1
            self._idle.pop(reading, None)
            if reading.chunks is not None:
                await self._close(reading.taken_away())

    async def _next(self, reading: _Reading) -> memoryview:
        """The next piece, empty at the end."""
        if self._waits:
            await asyncio.sleep(0)  # long enough to be closed for whoever waits: we had our turn
        self._idle.pop(reading, None)
        if reading.chunks is None:
            if reading.began and reading.position == reading.stop:
                return memoryview(b"")
            await self._enter(reading)
        assert reading.chunks is not None
        if not reading.rest:
            reading.rest = await anext(reading.chunks, memoryview(b""))
        if self.is_crowd and len(reading.rest):
            # Bytes of its own: a part of the chunk would keep all of it in memory after the file is closed.
            piece, reading.rest = memoryview(bytes(reading.rest[: self._piece])), reading.rest[self._piece :]
        else:
            piece, reading.rest = reading.rest, memoryview(b"")
        reading.position += len(piece)
        self._idle[reading] = asyncio.get_running_loop().time()
        self._changed.set()
        return piece

    async def _enter(self, reading: _Reading) -> None:
        """Open a file when it may be."""
        async with self._entering:
            while self._open >= self._most_open:
                if (other := self._next_to_give_way()) is not None:
                    await to_its_end(asyncio.ensure_future(self._close(other.taken_away())))
                    continue
                self._changed.clear()
                self._waits = True
                try:
                    with suppress(TimeoutError):  # then somebody may have stood still for long enough
                        async with asyncio.timeout(self._stands_still_s):
                            await self._changed.wait()
                finally:
                    self._waits = False
            self._open += 1
        reading.began = True
        reading.opened_at = reading.position
        reading.closing = AsyncExitStack()
        try:
            reading.chunks = await reading.closing.enter_async_context(reading.open_at(reading.position))
        except BaseException:
            self._left()
            raise

    def _next_to_give_way(self) -> _Reading | None:
        """Of those that may be closed the one that was idle the longest; it counts as idle no more."""
        before = asyncio.get_running_loop().time() - self._stands_still_s
        for reading, since in self._idle.items():
            if since <= before or reading.position - reading.opened_at >= self._turn:
                del self._idle[reading]
                return reading
        return None

    async def _close(self, opened: AsyncExitStack) -> None:
        try:
            await opened.aclose()
        finally:
            self._left()

    def _left(self) -> None:
        self._open -= 1
        self._changed.set()
