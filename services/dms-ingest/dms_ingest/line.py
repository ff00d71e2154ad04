"""The line that the bytes of one request come over: it may fall silent, and be broken off from this side too."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from nexarch.errors import Conflict, NexarchError

# A line that is cut off says what is on its way: until it pauses for so long, and for so long in all.
_PAUSE_S = 0.01
_LAST_WORDS_S = 0.25


class LineSilent(Conflict):
    """The line was silent for too long; what arrived on it is kept."""

    code = "line-silent"
    title = "The line was silent for too long"


class Source(Protocol):
    """Where the bytes of a request come from."""

    async def read_into(self, room: memoryview, took: Callable[[int], None]) -> bool:
        """Put some bytes into the room, from its start on; returns False at the end, when there are none.

        `took` is told at once how many more lie there: a caller who is cancelled has not lost them.
        """


class Line:
    """The body of one request, which either side may break off."""

    def __init__(self, source: Source, idle_s: float) -> None:
        self._source = source
        self._idle_s = idle_s
        self._deadline: asyncio.Timeout | None = None
        self._cut: NexarchError | None = None
        self._ends_at = 0.0  # once cut

    async def read_into(self, room: memoryview, took: Callable[[int], None]) -> bool:
        """As the source does; raises what that raises, LineSilent, and after `cut` what it was given.

        What has arrived by the time of the cut is given out first: its sender thinks it is here.
        """
        now = asyncio.get_running_loop().time()
        if self._cut is not None and now >= self._ends_at:
            raise self._cut
        try:
            async with asyncio.timeout(self._idle_s if self._cut is None else _PAUSE_S) as self._deadline:
                return await self._source.read_into(room, took)
        except TimeoutError as error:
            if self._cut is not None:
                raise self._cut from error
            raise LineSilent(f"Nothing arrived for {self._idle_s:g} seconds.") from error
        finally:
            self._deadline = None

    def cut(self, why: NexarchError) -> None:
        """Break the line off at its first pause, and after a moment in any case."""
        now = asyncio.get_running_loop().time()
        if self._cut is None:
            self._ends_at = now + _LAST_WORDS_S
        self._cut = why
        if self._deadline is not None and not self._deadline.expired():  # else what is read is on its way to its end
            self._deadline.reschedule(now)
