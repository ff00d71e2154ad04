import re
from email.message import Message
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dms_ingest.disposition import content_disposition, content_policy

# RFC 6266 with the quoted-string and the extended value in the forms that we write.
FORM = re.compile(
    r"""(attachment|inline); filename="[^"\\%\x00-\x1f\x7f-\U0010ffff]+"; filename\*=UTF-8''[A-Za-z0-9!#$&+.^_`|~%-]+"""
)


def full_name(header: str) -> str:
    return unquote(header.partition("filename*=UTF-8''")[2], errors="strict")


def plain_name(header: str) -> str:
    message = Message()
    message["Content-Disposition"] = header.partition("; filename*")[0]
    return str(message.get_param("filename", header="content-disposition"))


@pytest.mark.parametrize(
    ("name", "plain", "full"),
    [
        ("Bericht.pdf", "Bericht.pdf", "Bericht.pdf"),
        ("Müller & Söhne (2024).pdf", "Muller & Sohne (2024).pdf", "Müller & Söhne (2024).pdf"),
        ("契約書.pdf", "___.pdf", "契約書.pdf"),
        ('a"b\\c%41.pdf', "a_b_c_41.pdf", 'a"b\\c%41.pdf'),
        ("a\r\nSet-Cookie: x=1.pdf", "aSet-Cookie_ x=1.pdf", "aSet-Cookie: x=1.pdf"),
        ("rechnung\u202efdp.exe", "rechnungfdp.exe", "rechnungfdp.exe"),
        ("../../etc/passwd", ".._.._etc_passwd", "../../etc/passwd"),
        ("\u200b", "file", "file"),
        ("\u200d\u200c", "file", "file"),
        ("Familie \U0001f468\u200d\U0001f469.pdf", "Familie ___.pdf", "Familie \U0001f468\u200d\U0001f469.pdf"),
        ("Stand 1...", "Stand 1...", "Stand 1..."),
    ],
)
def test_every_name_has_a_plain_form_and_the_whole_one(name: str, plain: str, full: str) -> None:
    header = content_disposition("attachment", name, "application/pdf")

    assert (plain_name(header), full_name(header)) == (plain, full)


def test_a_long_name_keeps_its_extension() -> None:
    header = content_disposition("attachment", "ü" * 300 + ".pdf", "application/pdf")

    assert full_name(header) == "ü" * 251 + ".pdf"


@given(st.text(alphabet=st.characters(), max_size=300))
def test_no_name_breaks_out_of_the_header(name: str) -> None:
    header = content_disposition("attachment", name, "application/pdf")

    assert FORM.fullmatch(header), header
    full_name(header)


@pytest.mark.parametrize(
    ("media_type", "granted"),
    [
        ("application/pdf", "inline"),
        ("image/png", "inline"),
        ("text/plain", "inline"),
        ("text/html", "attachment"),
        ("image/svg+xml", "attachment"),
        ("application/xhtml+xml", "attachment"),
        ("text/xml", "attachment"),
        ("application/octet-stream", "attachment"),
    ],
)
def test_only_what_cannot_run_is_shown_in_the_browser(media_type: str, granted: str) -> None:
    assert content_disposition("inline", "a", media_type).startswith(granted + ";")
    assert content_disposition("attachment", "a", media_type).startswith("attachment;")


def test_everything_but_a_pdf_is_sandboxed() -> None:
    assert content_policy("text/plain").endswith("; sandbox")
    assert "sandbox" not in content_policy("application/pdf")
    assert "default-src 'none'" in content_policy("application/pdf")
