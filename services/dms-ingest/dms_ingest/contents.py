"""What the staged bytes of a whole upload are, looked at before anything is sealed."""

from collections.abc import Callable

from dms_ingest.sniffing import Shown, look_at
from nexarch.errors import Invalid

_FIRST = 4096
_PIECE = 1 << 20

ReadInto = Callable[[memoryview, int], int]


class NothingInFile(Invalid):
    """The file has no bytes, or only NULs: what a broken copy or scan leaves. Its upload is ended; make a new one."""

    code = "nothing-in-file"
    title = "There is nothing in the file"


def inspect(read_into: ReadInto, size: int) -> Shown:
    """What a staged file of `size` bytes shows; NothingInFile where it is empty or all NUL.

    `read_into(buffer, offset)` is that of `SealedFile`. Blocks: up to the first byte that is not NUL the file is read,
    so one of only NULs is read to its end.
    """
    if size == 0:
        raise NothingInFile("The file has no bytes, so the upload was ended.", size=0)
    if _only_nuls(read_into, size):
        raise NothingInFile("The file has nothing but NUL bytes, so the upload was ended.", size=size)

    def read_at(offset: int, length: int) -> bytes:
        buffer = bytearray(max(0, min(length, size - offset)))
        return bytes(buffer[: read_into(memoryview(buffer), offset)])

    return look_at(read_at, size)


def _only_nuls(read_into: ReadInto, size: int) -> bool:
    piece = bytearray(min(_PIECE, size))
    nuls = bytes(len(piece))
    offset, step = 0, _FIRST  # nearly every file ends the search there
    while count := read_into(memoryview(piece)[: min(step, size - offset)], offset):
        if not nuls.startswith(piece[:count]):
            return False
        offset, step = offset + count, len(piece)
    return offset == size
