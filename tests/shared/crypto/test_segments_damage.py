"""Whatever was changed, cut, moved or comes from elsewhere is refused, and no byte of it comes out."""

from uuid import UUID

import pytest

from nexarch.crypto.envelope import new_dek
from nexarch.crypto.layout import ObjectDamaged, object_aad
from nexarch.crypto.segments import Opener
from support.sealing import AAD, KEY, SHORT, TEXT, header_and_segments, opened, sealed


def test_any_flipped_bit_is_refused() -> None:
    stored = sealed(TEXT)

    for bit in range(len(stored) * 8):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ObjectDamaged):
            opened(bytes(damaged))


def test_an_object_cut_anywhere_is_refused() -> None:
    stored = sealed(TEXT)

    for size in range(len(stored)):
        with pytest.raises(ObjectDamaged):
            opened(stored[:size])


def test_an_object_cut_anywhere_but_told_at_its_full_size_is_refused() -> None:
    stored = sealed(TEXT)

    for size in range(len(stored)):
        opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=len(TEXT), form=SHORT)
        opener.update(stored[:size])
        with pytest.raises(ObjectDamaged, match="ends before"):
            opener.finish()


def test_a_range_of_an_object_cut_at_a_segment_is_refused_by_its_size() -> None:
    cut = sealed(TEXT)[:-44]

    with pytest.raises(ObjectDamaged, match="not 60 bytes sealed"):
        Opener(KEY, AAD, stored_size=len(cut), plaintext_size=len(TEXT), start=0, stop=5, form=SHORT)


@pytest.mark.parametrize(
    ("case", "order"),
    [
        ("swapped", [1, 0, 2, 3]),
        ("swapped over a change of key", [2, 1, 0, 3]),
        ("first dropped", [1, 2, 3]),
        ("dropped in the middle", [0, 1, 3]),
        ("last dropped", [0, 1, 2]),
        ("repeated", [0, 0, 1, 2, 3]),
        ("replayed", [0, 1, 0, 3]),
        ("last repeated", [0, 1, 2, 3, 3]),
        ("appended", [0, 1, 2, 3, 0]),
        ("last too early", [0, 3, 1, 2]),
    ],
)
def test_rearranged_segments_are_refused(case: str, order: list[int]) -> None:
    header, segments = header_and_segments(sealed(TEXT))
    stored = header + b"".join(segments[number] for number in order)

    with pytest.raises(ObjectDamaged):
        pytest.fail(f"{case}: {opened(stored)!r}")


def test_bytes_after_the_last_segment_are_refused() -> None:
    stored = sealed(TEXT)
    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=len(TEXT), form=SHORT)
    opener.update(stored)

    with pytest.raises(ObjectDamaged, match="More bytes follow"):
        opener.update(b"\x00")


def test_a_header_or_a_last_segment_of_another_object_is_refused() -> None:
    header, segments = header_and_segments(sealed(TEXT))
    other_header, other_segments = header_and_segments(sealed(TEXT))

    for pieces in ([other_header, *segments], [header, *segments[:-1], other_segments[-1]]):
        with pytest.raises(ObjectDamaged):
            opened(b"".join(pieces))


def test_a_full_segment_marked_as_the_last_one_is_refused() -> None:
    # The marker is not what is believed: position in the object and the tag over it decide.
    header, segments = header_and_segments(sealed(TEXT))
    cut = header + b"".join(segments[:2]) + (48).to_bytes(4, "big") + segments[2][4:]

    with pytest.raises(ObjectDamaged, match="Segment 2 of the object fails its check"):
        opened(cut)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [(0, "prefix"), (4, "prefix"), (7, "prefix"), (8, "parameters"), (13, "parameters"), (81, "header tag")],
)
def test_the_refusal_says_which_part_of_the_header_is_wrong(place: int, sentence: str) -> None:
    damaged = bytearray(sealed(TEXT))
    damaged[place] ^= 0x80

    with pytest.raises(ObjectDamaged, match=sentence):
        opened(bytes(damaged))


def test_another_key_or_place_is_refused_without_naming_the_key() -> None:
    stored = sealed(TEXT)

    for key, aad in ((new_dek(), AAD), (KEY, b"another place"), (KEY, b"")):
        with pytest.raises(ObjectDamaged) as refusal:
            opened(stored, key=key, aad=aad)
        assert key.hex() not in refusal.value.detail


def test_an_object_opens_for_its_tenant_document_and_revision_only() -> None:
    place = {"tenant_id": UUID(int=1), "document_id": UUID(int=2), "revision_id": UUID(int=3)}
    stored = sealed(TEXT, aad=object_aad(**place))

    assert opened(stored, aad=object_aad(**place)) == TEXT
    for other in place:
        with pytest.raises(ObjectDamaged):
            opened(stored, aad=object_aad(**place | {other: UUID(int=9)}))
    for one, another in [("tenant_id", "document_id"), ("document_id", "revision_id")]:
        with pytest.raises(ObjectDamaged):
            opened(stored, aad=object_aad(**place | {one: place[another], another: place[one]}))


def test_after_damage_nothing_more_is_opened() -> None:
    stored = bytearray(sealed(TEXT))
    stored[82 + 20] ^= 1
    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=len(TEXT), form=SHORT)
    with pytest.raises(ObjectDamaged):
        opener.update(stored[: 82 + 48])

    with pytest.raises(ObjectDamaged, match="before"):
        opener.update(stored[82 + 48 :])
    with pytest.raises(ObjectDamaged, match="before"):
        opener.finish()


def test_no_byte_of_a_damaged_segment_comes_out() -> None:
    stored = bytearray(sealed(TEXT))
    stored[82 + 48 + 47] ^= 1  # the last byte of segment 1
    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=len(TEXT), form=SHORT)
    whole_segments = opener.update(stored[: 82 + 48])

    with pytest.raises(ObjectDamaged, match="Segment 1"):
        pytest.fail(repr(opener.update(stored[82 + 48 :])))

    assert whole_segments == TEXT[:16]
