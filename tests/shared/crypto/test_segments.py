import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexarch.crypto.envelope import new_dek
from nexarch.crypto.layout import NXO1, Format, ObjectDamaged, ObjectTooLarge, object_aad
from nexarch.crypto.segments import Opener, Sealer

# Short segments of 16 bytes of plaintext, a new key every two: every border lies within a few bytes.
SHORT = Format(prefix=NXO1.prefix, segment_length=48, rotation_mask=1)
KEY = bytes(range(32))
AAD = b"one place"
TEXT = bytes(range(200, 256)) + b"tail"  # 60 bytes: three full segments and 12 bytes


def sealed(text: bytes, *, key: bytes = KEY, aad: bytes = AAD, form: Format = SHORT) -> bytes:
    sealer = Sealer(key, aad, form=form)
    return sealer.update(text) + sealer.finish()


def opened(
    stored: bytes,
    *,
    key: bytes = KEY,
    aad: bytes = AAD,
    plaintext_size: int | None = None,
    form: Format = SHORT,
) -> bytes:
    opener = Opener(key, aad, stored_size=len(stored), plaintext_size=plaintext_size, form=form)
    text = opener.update(stored)
    opener.finish()
    return text


def header_and_segments(stored: bytes) -> tuple[bytes, list[bytes]]:
    starts = range(SHORT.header_length, len(stored), SHORT.segment_length)
    return stored[: SHORT.header_length], [stored[at : at + SHORT.segment_length] for at in starts]


@given(text=st.binary(max_size=200), data=st.data())
def test_any_chunks_in_give_the_same_bytes_out(text: bytes, data: st.DataObject) -> None:
    def chunks(whole: bytes) -> list[bytes]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
        return [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    sealer = Sealer(KEY, AAD, form=SHORT)

    stored = b"".join(sealer.update(chunk) for chunk in chunks(text)) + sealer.finish()
    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=len(text), form=SHORT)
    result = b"".join(opener.update(chunk) for chunk in chunks(stored))
    opener.finish()

    assert result == text
    assert len(stored) == SHORT.object_size(len(text))


@pytest.mark.parametrize("chunk_size", range(1, 3 * SHORT.segment_length))
def test_one_buffer_of_the_bound_serves_a_whole_object(chunk_size: int) -> None:
    for size in range(3 * SHORT.segment_plaintext + 2):
        text, stored, result = bytes(range(size)), b"", b""
        sealer = Sealer(KEY, AAD, form=SHORT)
        opener = Opener(KEY, AAD, stored_size=SHORT.object_size(size), plaintext_size=size, form=SHORT)
        sink = memoryview(bytearray(sealer.bound(chunk_size)))
        source = memoryview(bytearray(opener.bound(chunk_size)))

        for start in range(0, size, chunk_size):
            stored += sink[: sealer.update_into(text[start : start + chunk_size], sink)]
        stored += sink[: sealer.finish_into(sink)]
        for start in range(0, len(stored), chunk_size):
            result += source[: opener.update_into(stored[start : start + chunk_size], source)]
        opener.finish()

        assert result == text


@given(size=st.integers(0, 100), data=st.data())
def test_a_range_is_the_slice_of_the_plaintext(size: int, data: st.DataObject) -> None:
    text = bytes(range(size))
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    stored = sealed(text)
    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=size, start=start, stop=stop, form=SHORT)

    result = opener.update(stored[: SHORT.header_length])
    result += opener.update(stored[opener.span.object_start : opener.span.object_stop])
    opener.finish()

    assert result == text[start:stop]


def test_a_range_reads_no_more_segments_than_it_touches() -> None:
    span = SHORT.locate(SHORT.object_size(len(TEXT)), 15, 17)

    assert span.segments == range(2)
    assert (span.object_start, span.object_stop) == (82, 82 + 2 * 48)


def test_a_range_outside_the_plaintext_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="not a range of 60 bytes"):
        SHORT.locate(SHORT.object_size(len(TEXT)), 59, 61)


def test_an_empty_range_is_authenticated_by_one_segment_even_at_the_end() -> None:
    stored_size = SHORT.object_size(32)

    assert [SHORT.locate(stored_size, at, at).segments for at in (0, 16, 32)] == [range(1), range(1, 2), range(1, 2)]


def test_the_same_text_is_never_sealed_to_the_same_bytes() -> None:
    assert sealed(TEXT) != sealed(TEXT)


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


def test_more_segments_than_the_format_allows_are_neither_sealed_nor_opened() -> None:
    two = Format(prefix=SHORT.prefix, segment_length=48, rotation_mask=1, max_segments=2)
    sealed(bytes(32), form=two)

    with pytest.raises(ObjectTooLarge, match="at most 32 bytes"):
        sealed(bytes(33), form=two)
    with pytest.raises(ObjectTooLarge, match="at most 32 bytes"):
        two.object_size(33)
    with pytest.raises(ObjectDamaged, match="more segments than allowed"):
        opened(sealed(bytes(33)), form=two)


def test_a_finished_object_takes_no_more() -> None:
    sealer = Sealer(KEY, AAD, form=SHORT)
    sealer.finish()

    with pytest.raises(ValueError, match="finished"):
        sealer.update(b"more")


def test_a_buffer_that_may_be_too_small_is_refused_before_anything_is_taken() -> None:
    sealer = Sealer(KEY, AAD, form=SHORT)
    with pytest.raises(ValueError, match="needs 178 bytes"):
        sealer.update_into(bytes(16), bytearray(177))

    stored = sealer.update(b"whole") + sealer.finish()

    opener = Opener(KEY, AAD, stored_size=len(stored), plaintext_size=5, form=SHORT)
    with pytest.raises(ValueError, match=f"needs {48 + len(stored)} bytes"):
        opener.update_into(stored, bytearray(47 + len(stored)))
    assert opener.update(stored) == b"whole"


@pytest.mark.parametrize(
    ("plaintext_size", "object_size"),
    [(0, 114), (1, 115), (262_112, 262_226), (262_113, 262_259), (1 << 30, 82 + 32 * 4097 + (1 << 30))],
)
def test_sizes_of_the_product_format(plaintext_size: int, object_size: int) -> None:
    assert NXO1.object_size(plaintext_size) == object_size
    assert NXO1.plaintext_size(object_size) == plaintext_size


@pytest.mark.parametrize("object_size", [0, 81, 82, 113, 82 + 262_144 + 1, 82 + 262_144 + 31])
def test_a_size_that_no_object_can_have_is_damage(object_size: int) -> None:
    with pytest.raises(ObjectDamaged, match=f"An object of {object_size} bytes"):
        NXO1.plaintext_size(object_size)


def test_a_negative_size_or_a_short_key_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="not negative"):
        NXO1.object_size(-1)
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer(bytes(16), AAD)


def test_the_place_of_an_object_is_eighty_bytes() -> None:
    aad = object_aad(UUID(int=1), UUID(int=2), UUID(int=3))

    assert aad.hex() == (
        "00000010" + b"nexarch/object/1".hex() + "".join(f"00000010{number:032x}" for number in (1, 2, 3))
    )


@pytest.mark.parametrize("parameters", [{"segment_length": 32}, {"rotation_mask": 21}, {"max_segments": 2**41}])
def test_parameters_that_the_construction_does_not_allow_are_refused(parameters: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="segments"):
        Format(prefix=b"", **{"segment_length": 64} | parameters)


def test_memory_stays_the_same_whatever_the_size() -> None:
    chunk = bytes(1 << 20)
    size = 64 * len(chunk)

    tracemalloc.start()
    sealer = Sealer(KEY, AAD)
    opener = Opener(KEY, AAD, stored_size=NXO1.object_size(size), plaintext_size=size)
    stored = memoryview(bytearray(sealer.bound(len(chunk))))
    text = memoryview(bytearray(opener.bound(len(stored))))
    for _ in range(64):
        written = sealer.update_into(chunk, stored)
        opener.update_into(stored[:written], text)
    written = sealer.finish_into(stored)
    opener.update_into(stored[:written], text)
    opener.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 5 << 20  # two buffers of a good MiB, and three segments held
