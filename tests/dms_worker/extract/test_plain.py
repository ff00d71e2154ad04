import io

import pytest

from dms_worker.extract.limits import Limits
from dms_worker.extract.plain import read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_the_encoding_is_told_from_the_bytes(encoding: str) -> None:
    content = read_text(io.BytesIO("Größe: 5 €\n".encode(encoding)), Limits())

    assert list(content.pages) == ["Größe: 5 €\n"]
    assert not content.cut


def test_big_endian_utf_16_with_its_mark_is_read() -> None:
    content = read_text(io.BytesIO(b"\xfe\xff" + "Größe".encode("utf-16-be")), Limits())

    assert list(content.pages) == ["Größe"]


def test_bytes_that_no_encoding_allows_are_read_as_latin_1() -> None:
    content = read_text(io.BytesIO(b"caf\xe9 \x81"), Limits())

    assert list(content.pages) == ["café \x81"]


def test_a_page_break_is_a_line_break() -> None:
    content = read_text(io.BytesIO(b"one\ftwo\vthree"), Limits())

    assert list(content.pages) == ["one\ntwo\nthree"]


def test_a_cut_through_a_character_does_not_change_the_encoding() -> None:
    content = read_text(io.BytesIO(b"a" + "ä".encode() * 9), Limits(characters=3))

    assert list(content.pages) == ["aäääää"]
    assert content.cut


def test_an_odd_byte_at_the_end_of_utf_16_is_no_error() -> None:
    content = read_text(io.BytesIO("ab".encode("utf-16") + b"c"), Limits())

    assert list(content.pages) == ["ab\ufffd"]
