import codecs
import struct

import pytest

from dms_ingest.sniffing import Shown, look_at
from support.containers import compound, office, package

OOXML = "application/vnd.openxmlformats-officedocument."
ODF = "application/vnd.oasis.opendocument."


def shown(content: bytes) -> Shown:
    return look_at(lambda offset, length: content[offset : offset + length], len(content))


def ftyp(*brands: bytes) -> bytes:
    """The first box of a HEIF file: major brand, version, the others; and the next box."""
    box = brands[0] + bytes(4) + b"".join(brands[1:])
    return struct.pack(">I", len(box) + 8) + b"ftyp" + box + b"\0\0\0\x08meta"


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"\xef\xbb\xbf%PDF-1.3", "application/pdf"),
        (b"From: scanner\n\n%PDF-1.4\n", "application/pdf"),
        (b"\0" * 1019 + b"%PDF-", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"II*\x00\x08", "image/tiff"),
        (b"MM\x00*\0", "image/tiff"),
        (b"II+\x00\x08", "image/tiff"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"BM" + bytes(12) + struct.pack("<I", 40) + bytes(36), "image/bmp"),
        (ftyp(b"heic", b"mif1", b"heic"), "image/heic"),
        (ftyp(b"mif1", b"mif1", b"heic"), "image/heic"),
        (ftyp(b"avif", b"mif1"), "image/avif"),
        (ftyp(b"mif1", b"jpeg"), "image/heif"),
    ],
)
def test_binary_formats_are_told_by_their_marks(content: bytes, media_type: str) -> None:
    assert shown(content).media_type == media_type


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (office("word/document.xml"), f"{OOXML}wordprocessingml.document"),
        (office("xl/workbook.xml"), f"{OOXML}spreadsheetml.sheet"),
        (office("ppt/presentation.xml"), f"{OOXML}presentationml.presentation"),
        (office("word/document.xml", "word/vbaProject.bin"), "application/vnd.ms-word.document.macroenabled.12"),
        (office("xl/workbook.xml", "xl/vbaProject.bin"), "application/vnd.ms-excel.sheet.macroenabled.12"),
        (office("xl/workbook.bin"), "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
        (
            office("ppt/presentation.xml", "ppt/vbaProject.bin"),
            "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        ),
        (office("visio/document.xml"), "application/vnd.ms-visio.drawing.main+xml"),
        (package("word/document.xml", "[Content_Types].xml"), f"{OOXML}wordprocessingml.document"),  # in any order
        (package("[Content_Types].xml", "word\\document.xml"), f"{OOXML}wordprocessingml.document"),
        (package("content.xml", mimetype=f"{ODF}text"), f"{ODF}text"),
        (package("content.xml", mimetype=f"{ODF}spreadsheet-template"), f"{ODF}spreadsheet-template"),
        (package("OEBPS/a.xhtml", mimetype="application/epub+zip"), "application/epub+zip"),
        (package("META-INF/MANIFEST.MF", "A.class"), "application/java-archive"),
        (package("scan.pdf"), "application/zip"),
        (package("word/document.xml"), "application/zip"),
        (package("a.txt", mimetype="text/html"), "application/zip"),
        (package(), "application/zip"),
        (package("[Content_Types].xml", "xl/workbook.xml", comment=b"x" * 65535), f"{OOXML}spreadsheetml.sheet"),
    ],
)
def test_packages_are_told_by_their_members(content: bytes, media_type: str) -> None:
    assert shown(content) == Shown(media_type, may_be_text=False)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (compound("WordDocument"), "application/msword"),
        (compound("Workbook"), "application/vnd.ms-excel"),
        (compound("Book"), "application/vnd.ms-excel"),
        (compound("PowerPoint Document"), "application/vnd.ms-powerpoint"),
        (compound("__properties_version1.0"), "application/vnd.ms-outlook"),
        (compound("VisioDocument"), "application/vnd.visio"),
        (compound("EncryptionInfo", "EncryptedPackage"), "application/x-ole-storage"),
        (compound("WordDocument", behind=3), "application/msword"),
    ],
)
def test_compound_files_are_told_by_their_streams(content: bytes, media_type: str) -> None:
    assert shown(content) == Shown(media_type, may_be_text=False)


@pytest.mark.parametrize("content", [office("word/document.xml"), compound("WordDocument", behind=2)])
def test_a_container_cut_off_or_damaged_anywhere_is_still_a_container_or_what_it_was(content: bytes) -> None:
    whole = shown(content).media_type
    rests = {shown(content[:length]).media_type for length in range(8, len(content))}
    # Every 32-bit number may be anything: sizes, offsets, sector numbers, links that lead back.
    broken = {
        shown(content[:at] + number + content[at + 4 :]).media_type
        for at in range(8, len(content) - 4)
        for number in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x01\0\0\0")
    }

    assert rests | broken <= {whole, "application/zip", "application/x-ole-storage"}


def test_no_more_than_some_mib_are_read_of_a_directory_that_claims_to_be_huge() -> None:
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0xFFFFFF00, 0, 0)
    size = 1 << 40
    read = 0

    def read_at(offset: int, length: int) -> bytes:
        nonlocal read
        read += length
        content = b"PK\x03\x04".ljust(length, b"x") if offset == 0 else b"x" * length
        return content[: -len(end)] + end if offset + length == size else content

    assert look_at(read_at, size).media_type == "application/zip"
    assert read < 2 << 20


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        ("Grüße".encode(), "text/plain"),
        (b"\xef\xbb\xbfa;b\r\n", "text/plain"),
        ("x".join("äöü" * 700).encode(), "text/plain"),  # a character lies across the end of what is looked at
        (codecs.BOM_UTF16_LE + "Grüße".encode("utf-16-le"), "text/plain"),
        (codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"), "text/plain"),
        (b"{\\rtf1\\ansi}", "application/rtf"),
        (b'<?xml version="1.0"?><rechnung/>', "text/xml"),
        (b"\n <!DOCTYPE html>\n<p>", "text/html"),
        (b"<HTML lang=de>", "text/html"),
        (b"<script>alert(1)</script>", "text/html"),
        (b"<html>Gr\xfc\xdfe", "text/html"),  # in Latin-1
        (codecs.BOM_UTF16_LE + "<html>".encode("utf-16-le"), "text/html"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"<?xml version='1.0'?>\n<!-- x --><!-- y -->\n<svg/>", "image/svg+xml"),
        (b"<!---->" * 600, "text/html"),
    ],
)
def test_texts_are_told_by_how_they_begin(content: bytes, media_type: str) -> None:
    assert shown(content) == Shown(media_type, may_be_text=True)


@pytest.mark.parametrize("content", [b"Gr\xfc\xdfe", b"\x01\x02\x03", b"   "])
def test_what_shows_nothing_is_no_known_type(content: bytes) -> None:
    assert shown(content) == Shown(None, may_be_text=True)


@pytest.mark.parametrize("content", [b"MZ\x90\0\x03", b"\x7fELF\x02\x01\x01\0", b"BM, in words", b"RIFF\0\0\0\0WAVE"])
def test_no_mark_is_seen_where_there_is_none(content: bytes) -> None:
    assert shown(content).media_type in {None, "text/plain"}
    assert shown(content).may_be_text is (b"\0" not in content)
