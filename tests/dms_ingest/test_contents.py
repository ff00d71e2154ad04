from collections.abc import Callable

import pytest

from dms_ingest.contents import NothingInFile, inspect

MIB = 1 << 20


def read_into(content: bytes) -> Callable[[memoryview, int], int]:
    def read(buffer: memoryview, offset: int) -> int:
        piece = content[offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)

    return read


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, MIB + 4096, 3 * MIB + 1])
def test_a_file_of_no_bytes_or_of_nuls_has_nothing_in_it(size: int) -> None:
    with pytest.raises(NothingInFile):
        inspect(read_into(bytes(size)), size)


@pytest.mark.parametrize("size", [1, 4096, 4097, MIB + 4096, 3 * MIB + 1])
def test_one_byte_that_is_not_nul_is_something(size: int) -> None:
    content = bytes(size - 1) + b"x"

    assert inspect(read_into(content), size).media_type in {None, "text/plain"}


def test_only_the_beginning_is_read_where_there_is_something() -> None:
    reads: list[int] = []

    def read(buffer: memoryview, offset: int) -> int:
        reads.append(offset + len(buffer))
        buffer[:] = b"x" * len(buffer)
        return len(buffer)

    inspect(read, 1 << 40)

    assert max(reads) <= 4096
