"""What the headers of tus say is read strictly, and what is answered is made anew."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dms_ingest import tus_headers
from dms_ingest.tus_headers import Concat, HeaderRefused
from dms_ingest.upload_sessions import UploadNotFound

# Also a constraint of the schema.
_FORM = re.compile(r"[!-+\x2d-~]+( [A-Za-z0-9+/]+={0,2})?(,[!-+\x2d-~]+( [A-Za-z0-9+/]+={0,2})?)*")
_KEYS = st.text(st.sampled_from("abcXYZ019_-./~!"), min_size=1, max_size=20)


@settings(deadline=None)  # machines stall
@given(st.dictionaries(_KEYS, st.binary(max_size=50), max_size=5))
def test_metadata_come_back_as_they_were(pairs: dict[str, bytes]) -> None:
    header = tus_headers.metadata_header(pairs)

    assert tus_headers.metadata(header) == pairs
    assert header is None or _FORM.fullmatch(header)


@settings(deadline=None)  # machines stall
@given(st.text(max_size=100) | st.text(st.sampled_from("ab ,=Z9+/\r\n\0ü"), max_size=30))
def test_whatever_comes_as_metadata_is_refused_or_written_in_its_form(value: str) -> None:
    try:
        header = tus_headers.metadata_header(tus_headers.metadata(value))
    except HeaderRefused:
        return

    assert header is None or _FORM.fullmatch(header)


@pytest.mark.parametrize("value", ["", " ", "+1", "-1", "1 ", "0x1", "1e3", "１", "9" * 19])
def test_a_number_is_decimal_digits(value: str) -> None:
    with pytest.raises(HeaderRefused):
        tus_headers.number("Upload-Offset", value)


ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize("url", [f"/files/{ID}", f"files/{ID}", f"https://host:8/prefix/files/{ID}"])
def test_parts_are_found_by_any_address_of_theirs(url: str) -> None:
    concat = tus_headers.concat(f"final;{url} {url}")

    assert concat is not None
    assert concat.parts is not None
    assert [str(part) for part in concat.parts] == [ID, ID]


@pytest.mark.parametrize(
    "url", [ID, f"/files/{ID}/", f"/?/files/{ID}", f"/files/../{ID}", f"/xfiles/{ID}", "http://[", "/files/.."]
)
def test_what_is_no_address_of_a_part_is_that_of_nothing(url: str) -> None:
    with pytest.raises(UploadNotFound):
        tus_headers.concat(f"final;{url}")


def test_a_part_names_none() -> None:
    assert tus_headers.concat("partial") == Concat(None)
    assert tus_headers.concat(None) is None
    assert tus_headers.concat_header("partial", None) == "partial"
