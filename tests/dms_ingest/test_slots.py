"""How staged bytes are sealed: what opens, and that nothing else does."""

import os
from uuid import UUID

import pytest

from dms_ingest.slots import (
    HEADER,
    MOST_RANGES,
    SLOT,
    STRIDE,
    Ranges,
    SlotDamaged,
    Slots,
    UploadScattered,
    nonce_of,
    stored_length,
    with_range,
)

SESSION = UUID("01990000-0000-7000-8000-000000000000")
OTHER = UUID("01990000-0000-7000-8000-000000000001")
KEY = os.urandom(32)


def seal(plaintext: bytes, ranges: Ranges, *, number: int = 3) -> bytearray:
    out = bytearray(STRIDE)
    length = Slots(KEY, SESSION).seal_into(number, memoryview(plaintext), ranges, os.urandom(12), memoryview(out))
    return out[:length]


def opened(stored: bytes | bytearray, *, number: int = 3, key: bytes = KEY, session: UUID = SESSION) -> bytes:
    out = bytearray(SLOT)
    ranges = Slots(key, session).open_into(number, memoryview(stored), memoryview(out))
    return bytes(out[: ranges[-1][1]])


@pytest.mark.parametrize("length", [1, 5000, SLOT])
def test_a_slot_opens_to_what_was_sealed_with_whatever_follows_it(length: int) -> None:
    content = os.urandom(length)

    stored = seal(content, ((0, length),))

    assert len(stored) == stored_length(length) <= STRIDE
    assert opened(stored) == opened(stored + b"what follows") == content


def test_a_slot_says_which_of_its_bytes_have_come() -> None:
    out = bytearray(SLOT)

    stored = seal(b"ab\0\0\0fg", ((0, 2), (5, 7)))

    assert Slots(KEY, SESSION).open_into(3, memoryview(stored), memoryview(out)) == ((0, 2), (5, 7))


@pytest.mark.parametrize("stored", [b"", bytes(10), bytes(STRIDE)])
def test_a_place_that_nothing_was_written_to_holds_nothing(stored: bytes) -> None:
    assert Slots(KEY, SESSION).open_into(0, memoryview(stored), memoryview(bytearray(SLOT))) == ()


def test_every_seal_has_a_nonce_of_its_own_and_shows_nothing() -> None:
    content = b"the same and readable text " * 10

    stored = [seal(content, ((0, len(content)),)) for _ in range(50)]

    assert len({nonce_of(memoryview(one)) for one in stored}) == 50
    assert not any(b"readable" in one or KEY in one for one in stored)


def test_any_bit_that_changes_is_found() -> None:
    content = os.urandom(20)
    stored = seal(content, ((0, 5), (9, 20)))
    meaningful = [*range(4 + 12 + 16), *range(HEADER, len(stored))]

    for position in meaningful:
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[position] ^= 1 << bit
            with pytest.raises(SlotDamaged):
                opened(damaged)


def test_a_slot_that_is_cut_is_found() -> None:
    stored = seal(b"content", ((0, 7),))

    for length in [16, 31, HEADER, HEADER + 7, len(stored) - 1]:
        with pytest.raises(SlotDamaged):
            opened(stored[:length])


def test_a_slot_opens_nowhere_but_in_its_place() -> None:
    stored = seal(b"content", ((0, 7),))

    with pytest.raises(SlotDamaged):
        opened(stored, number=4)
    with pytest.raises(SlotDamaged):
        opened(stored, session=OTHER)
    with pytest.raises(SlotDamaged):
        opened(stored, key=os.urandom(32))


def test_ranges_that_touch_or_overlap_are_one() -> None:
    assert with_range((), 3, 5) == ((3, 5),)
    assert with_range(((3, 5),), 5, 7) == ((3, 7),)
    assert with_range(((3, 5),), 0, 3) == ((0, 5),)
    assert with_range(((3, 5), (8, 9)), 4, 8) == ((3, 9),)
    assert with_range(((3, 5), (8, 9)), 6, 7) == ((3, 5), (6, 7), (8, 9))
    assert with_range(((3, 9),), 4, 5) == ((3, 9),)


def test_more_pieces_than_a_slot_can_name_are_refused_until_gaps_are_filled() -> None:
    ranges: Ranges = tuple((2 * n, 2 * n + 1) for n in range(MOST_RANGES))

    with pytest.raises(UploadScattered):
        with_range(ranges, 2 * MOST_RANGES, 2 * MOST_RANGES + 1)

    assert len(with_range(ranges, 1, 2)) == MOST_RANGES - 1
    assert opened(seal(bytes(2 * MOST_RANGES - 1), ranges)) == bytes(2 * MOST_RANGES - 1)
