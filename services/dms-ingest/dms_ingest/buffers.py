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

    def plenty(self) -> bool:
        """Whether so few are out that one who has some may take more, to be faster."""
        return self._lent < self._keep

    def take(self) -> memoryview:
        """A buffer with whatever is in it, until it is given back."""
        self._lent += 1
        if self._lent > self._many:
            return memoryview(bytearray(self._small))
        return self._idle.pop() if self._idle else memoryview(bytearray(self._size))

    def give(self, buffer: memoryview) -> None:
        """Take one back that was lent."""
        self._lent -= 1
        if len(buffer) == self._size and len(self._idle) < self._keep:
            self._idle.append(buffer)

    @contextmanager
    def two(self) -> Iterator[tuple[memoryview, memoryview]]:
        """Two buffers: one is filled while the other is emptied."""
        pair = self.take(), self.take()
        try:
            yield pair
        finally:
            for buffer in pair:
                self.give(buffer)
