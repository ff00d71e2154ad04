import pytest

from dms_ingest.byte_ranges import ByteRange, RangeNotSatisfiable, requested_range


@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-9", 0, 10),
        ("bytes=0-", 0, 10),
        ("bytes=9-", 9, 10),
        ("bytes=3-5", 3, 6),
        ("bytes=3-999", 3, 10),
        ("bytes=-1", 9, 10),
        ("bytes=-999", 0, 10),
        ("BYTES= 2-3 ", 2, 4),
        ("bytes=0-9999999999999999999", 0, 10),
    ],
)
def test_one_range_is_cut_to_the_file(header: str, start: int, stop: int) -> None:
    assert requested_range(header, 10) == ByteRange(start, stop, 10)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-3",
        "bytes=0-1,4-5",
        "bytes=--1",
        "bytes=+1-2",
        "bytes=١-٢",
        "items=0-1",
        "bytes=0-" + "9" * 5000,
    ],
)
def test_what_is_no_single_range_of_bytes_is_ignored(header: str | None) -> None:
    assert requested_range(header, 10) is None


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=11-12", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_a_range_behind_the_end_is_not_satisfiable(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable) as caught:
        requested_range(header, size)

    assert caught.value.members == {"size": size}
    assert caught.value.status == 416


def test_the_content_range_names_first_and_last_byte() -> None:
    assert ByteRange(0, 5, 10).content_range == "bytes 0-4/10"
