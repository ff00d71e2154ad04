"""Buffers that are used again and again.

With a new buffer for each piece the C library keeps giving memory back to the system and faulting it in again, which
halves the speed of receiving.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Buffers:
    """Lends buffers of `size` bytes and keeps at most `keep` of them while they are idle.

    While `many` are out, further ones have `small` bytes: a crowd of slow lines takes little memory each.
    """

    def __init__(self, size: int = 1 << 20, keep: int = 16, many: int = 32, small: int = 1 << 16) -> None:
        self._size = size
        self._keep = keep
        self._many = many
        self._small = small
        self._lent = 0
        self._idle: list[memoryview] = []

    @contextmanager
    def two(self) -> Iterator[tuple[memoryview, memoryview]]:
        """Two buffers with whatever is in them: one is filled while the other is emptied."""
        pair = self._pair()
        self._lent += 2
        try:
            yield pair
        finally:
            self._lent -= 2
            if len(pair[0]) == self._size:
                self._idle.extend(pair[: max(0, self._keep - len(self._idle))])

    def _pair(self) -> tuple[memoryview, memoryview]:
        if self._lent >= self._many:
            return memoryview(bytearray(self._small)), memoryview(bytearray(self._small))
        return self._take(), self._take()

    def _take(self) -> memoryview:
        return self._idle.pop() if self._idle else memoryview(bytearray(self._size))
