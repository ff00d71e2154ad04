import pytest

from dms_ingest.media_types import ContentMismatch, TypeNotAllowed, check_allowed, is_media_range, settle_type
from dms_ingest.sniffing import look_at
from support.containers import compound, office, package

OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = f"{OOXML}wordprocessingml.document"
DOCM = "application/vnd.ms-word.document.macroenabled.12"
ODT = "application/vnd.oasis.opendocument.text"
PNG = b"\x89PNG\r\n\x1a\n"


def settled(announced: str, content: bytes) -> str:
    return settle_type(announced, look_at(lambda offset, length: content[offset : offset + length], len(content)))


@pytest.mark.parametrize(
    ("announced", "content"),
    [
        ("application/pdf", b"%PDF-1.7"),
        ("application/pdf", b"\n" * 1019 + b"%PDF-"),
        (DOCX, office("word/document.xml")),
        (DOCX, compound("EncryptedPackage")),  # with a password
        (f"{OOXML}wordprocessingml.template", office("word/document.xml")),
        (DOCM, office("word/document.xml", "word/vbaProject.bin")),
        (ODT, package("content.xml", mimetype=ODT)),
        ("application/zip", package("a.txt")),
        ("image/png", PNG),
        ("application/msword", compound("WordDocument")),
        ("text/plain", b"hello"),
        ("text/plain", b"Gr\xfc\xdfe"),  # in Latin-1
        ("text/plain", b"<html>"),
        ("text/markdown", b"# The mark %PDF-1.7 begins a file"),
        ("text/html", b"<p>hello"),
        ("application/rtf", b"{\\rtf1}"),
        ("application/x-unheard-of", PNG),
        ("application/octet-stream", b"\x01\x02"),
    ],
)
def test_a_file_whose_bytes_are_what_it_was_announced_as_is_taken(announced: str, content: bytes) -> None:
    assert settled(announced, content) == announced


@pytest.mark.parametrize(
    ("announced", "content", "stored"),
    [
        ("application/octet-stream", b"%PDF-1.7", "application/pdf"),
        ("application/octet-stream", PNG, "image/png"),
        ("application/octet-stream", office("word/document.xml"), DOCX),
        ("application/octet-stream", package("a.txt"), "application/zip"),
        ("application/octet-stream", compound("WordDocument"), "application/msword"),
        ("application/octet-stream", b"hello", "text/plain"),
        ("application/octet-stream", b"<script>", "text/html"),
        ("application/zip", office("word/document.xml", "word/vbaProject.bin"), DOCM),
        ("application/x-zip-compressed", package("content.xml", mimetype=ODT), ODT),
        ("application/x-zip-compressed", package("a.txt"), "application/zip"),
        ("image/jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
    ],
)
def test_a_type_that_says_less_than_the_bytes_is_corrected(announced: str, content: bytes, stored: str) -> None:
    assert settled(announced, content) == stored


@pytest.mark.parametrize(
    ("announced", "content", "found"),
    [
        ("application/pdf", b"hello", "text/plain"),
        ("application/pdf", b"\n" * 1024 + b"%PDF-", "text/plain"),
        ("application/pdf", PNG, "image/png"),
        ("application/pdf", b"MZ\x90\0", None),
        (DOCX, b"%PDF-1.7", "application/pdf"),
        (DOCX, package("a.txt"), "application/zip"),
        (DOCX, office("xl/workbook.xml"), f"{OOXML}spreadsheetml.sheet"),
        (DOCX, office("word/document.xml", "word/vbaProject.bin"), DOCM),
        (DOCX, compound("WordDocument"), "application/msword"),
        (ODT, office("word/document.xml"), DOCX),
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/jpg", PNG, "image/png"),
        ("text/plain", b"%PDF-1.7", "application/pdf"),
        ("text/plain", b"\x7fELF\x02\x01\x01\0", None),
        ("text/csv", package("a.csv"), "application/zip"),
        ("application/msword", office("word/document.xml"), DOCX),
        ("application/msword", compound("Workbook"), "application/vnd.ms-excel"),
        ("application/zip", b"hello", "text/plain"),
        ("image/svg+xml", PNG, "image/png"),
    ],
)
def test_a_file_whose_bytes_contradict_what_it_was_announced_as_is_refused(
    announced: str, content: bytes, found: str | None
) -> None:
    with pytest.raises(ContentMismatch) as refused:
        settled(announced, content)

    assert refused.value.members == {"announced": announced, "found": found}


def test_a_type_that_is_not_on_the_list_is_refused_with_the_list() -> None:
    with pytest.raises(TypeNotAllowed) as refused:
        check_allowed("text/html", frozenset({"text/plain", "application/pdf"}))

    assert refused.value.members == {"accepted": ["application/pdf", "text/plain"]}


@pytest.mark.parametrize("mime_type", ["text/plain", "image/png", "image/svg+xml", "application/x-pdf"])
def test_the_list_holds_types_whole_kinds_and_the_other_names_of_a_type(mime_type: str) -> None:
    check_allowed(mime_type, ["text/plain", "image/*", "application/pdf"])


@pytest.mark.parametrize("text", ["image/*", "application/vnd.ms-excel", "image/svg+xml"])
def test_types_and_kinds_of_types_can_stand_on_a_list(text: str) -> None:
    assert is_media_range(text)


@pytest.mark.parametrize("text", ["", "*", "*/*", "*/png", "image", "image/", "image/p*", "Image/png", "image/png\n"])
def test_anything_else_cannot_stand_on_a_list(text: str) -> None:
    assert not is_media_range(text)
