"""Buffers that are used again and again.

With a new buffer for each piece the C library keeps giving memory back to the system and faulting it in again, which
halves the speed of receiving.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Buffers:
    """Lends buffers of one size (bytes); keeps at most `keep` idle ones, 1 MiB each by default."""

    def __init__(self, size: int = 1 << 20, keep: int = 16) -> None:
        self._size = size
        self._keep = keep
        self._idle: list[memoryview] = []

    @contextmanager
    def two(self) -> Iterator[tuple[memoryview, memoryview]]:
        """Two buffers with whatever is in them: one is filled while the other is emptied."""
        pair = (self._take(), self._take())
        try:
            yield pair
        finally:
            self._idle.extend(pair[: max(0, self._keep - len(self._idle))])

    def _take(self) -> memoryview:
        return self._idle.pop() if self._idle else memoryview(bytearray(self._size))
