"""What is sealed opens again, whole or in part, in chunks of any length and in bounded memory."""

import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexarch.crypto.layout import NXO1, Format, ObjectDamaged, ObjectTooLarge, object_aad
from nexarch.crypto.segments import Opener, Sealer
from support.sealing import AAD, KEY, SHORT, TEXT, opened, sealed


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
