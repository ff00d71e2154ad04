import pytest

from dms_ingest.media_types import ContentMismatch, TypeNotAllowed, check_allowed, settle_type

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PNG = b"\x89PNG\r\n\x1a\n"
ZIP = b"PK\x03\x04"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("announced", "head", "stored"),
    [
        ("application/pdf", b"%PDF-1.7", "application/pdf"),
        ("application/pdf", b"\xef\xbb\xbf%PDF-1.3", "application/pdf"),
        ("application/pdf", b"\n" * 1019 + b"%PDF-", "application/pdf"),
        (DOCX, ZIP, DOCX),
        (DOCX, OLE, DOCX),  # with a password
        ("image/png", PNG, "image/png"),
        ("image/jpeg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/tiff", b"II*\x00", "image/tiff"),
        ("image/tiff", b"MM\x00*", "image/tiff"),
        ("text/plain", b"", "text/plain"),
        ("text/plain", b"hello", "text/plain"),
        ("text/markdown", b"# The mark %PDF-1.7 begins a file", "text/markdown"),
        ("application/msword", OLE, "application/msword"),
        ("application/x-unheard-of", PNG, "application/x-unheard-of"),
        ("application/octet-stream", b"hello", "application/octet-stream"),
        ("application/octet-stream", b"%PDF-1.7", "application/pdf"),
        ("application/octet-stream", PNG, "image/png"),
        ("application/octet-stream", ZIP, "application/octet-stream"),  # many types are ZIP files
    ],
)
def test_a_file_that_begins_as_its_type_does_is_taken(announced: str, head: bytes, stored: str) -> None:
    assert settle_type(announced, head) == stored


@pytest.mark.parametrize(
    ("announced", "head", "found"),
    [
        ("application/pdf", b"", None),
        ("application/pdf", b"hello", None),
        ("application/pdf", b"\n" * 1024 + b"%PDF-", None),
        ("application/pdf", PNG, "image/png"),
        (DOCX, b"%PDF-1.7", "application/pdf"),
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("text/plain", b"%PDF-1.7", "application/pdf"),
        ("text/csv", ZIP, "application/zip"),
        ("application/msword", ZIP, "application/zip"),
    ],
)
def test_a_file_that_begins_as_another_type_does_is_refused(announced: str, head: bytes, found: str | None) -> None:
    with pytest.raises(ContentMismatch) as refused:
        settle_type(announced, head)

    assert refused.value.members == {"announced": announced, "found": found}


def test_a_type_that_is_not_on_the_list_is_refused_with_the_list() -> None:
    with pytest.raises(TypeNotAllowed) as refused:
        check_allowed("text/html", frozenset({"text/plain", "application/pdf"}))

    assert refused.value.members == {"accepted": ["application/pdf", "text/plain"]}
