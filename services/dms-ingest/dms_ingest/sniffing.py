"""What a file is, told by its bytes alone: never by its name, nor by what its sender said.

Containers (ZIP, compound files) are told by what is in them, which may take a look at their end. Sources: ISO 32000-1
annex H (a PDF's mark may stand anywhere in the first 1,024 bytes), the WHATWG's MIME Sniffing (HTML), ISO 23008-12
(HEIF brands), and the formats' own signatures.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

from dms_ingest import compound_files, zip_members

PDF = "application/pdf"
RTF = "application/rtf"
HTML = "text/html"
XML = "text/xml"
SVG = "image/svg+xml"
TEXT = "text/plain"

_HEAD = 4096  # bytes that decide whether a file is text
_PDF_WITHIN = 1024

_AT_START = (
    (b"%PDF-", PDF),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),  # BigTIFF
    (b"MM\x00+", "image/tiff"),
)
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")  # with members, without
_BITMAP_HEADERS = {12, 40, 52, 56, 64, 108, 124}  # sizes of the header that follows the 14 bytes of "BM"
_BRANDS = {
    **dict.fromkeys([b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"], "image/heic"),
    **dict.fromkeys([b"avif", b"avis"], "image/avif"),
}
_HEIF = {b"mif1", b"msf1"}  # an image of whatever coding the other brands name

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS = bytes(sorted(set(range(32)) - set(b"\t\n\r\f\x1b")))
_HTML_START = re.compile(
    rb"<!doctype html[\s>]|<!--|"
    rb"<(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]",
    re.IGNORECASE,
)
# Atomic and possessive: what was skipped is never tried in another way, or a file of many comments would take for ever.
_SVG_START = re.compile(
    rb"(?>\s+|<\?xml[^>]*>|<!doctype svg[^>]*>|<!--.*?-->)*+<(?:\w+:)?svg[\s/>]", re.IGNORECASE | re.DOTALL
)

ReadAt = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Shown:
    """What the bytes of a file show."""

    media_type: str | None  # None: nothing that we know
    may_be_text: bool  # it begins like no binary format, and has no NUL without a mark of UTF-16


def look_at(read_at: ReadAt, size: int) -> Shown:
    """Tell what a file of `size` bytes is.

    `read_at(offset, length)` gives bytes of the file, fewer only at its end. It is asked a few times for at most a MiB;
    this blocks as long as it does.
    """
    head = read_at(0, _HEAD)
    if binary := _binary_type(head, read_at, size):
        return Shown(binary, may_be_text=False)
    may_be_text = b"\x00" not in head or head.startswith(_UTF_16)
    # A mark behind junk, or behind lines of a mail's header, makes a PDF: every reader opens it.
    media_type = PDF if b"%PDF-" in head[:_PDF_WITHIN] else _text_type(head, whole=size <= _HEAD)
    return Shown(media_type, may_be_text)


def _binary_type(head: bytes, read_at: ReadAt, size: int) -> str | None:
    if head.startswith(_ZIPS):
        return zip_members.package_type(read_at, size)
    if head.startswith(compound_files.SIGNATURE):
        return compound_files.compound_type(read_at)
    return next((media_type for magic, media_type in _AT_START if head.startswith(magic)), None) or _image(head)


def _image(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return "image/bmp"
    if head[4:8] != b"ftyp":
        return None
    box = head[8 : int.from_bytes(head[:4], "big")]
    brands = [box[:4], *(box[at : at + 4] for at in range(8, len(box), 4))]
    if told := next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None):
        return told
    return "image/heif" if brands[0] in _HEIF else None


def _text_type(head: bytes, *, whole: bool) -> str | None:
    """The kind of text that the head begins; of those that do not run in a browser only in UTF-8 or UTF-16."""
    if head.startswith(_UTF_16):
        head, readable = head.decode("utf-16", "replace").encode(), True
    else:
        head = head.removeprefix(codecs.BOM_UTF8)
        readable = head.translate(None, _CONTROLS) == head and _is_utf8(head, whole=whole)
    start = head.lstrip()
    # A browser would run these in any coding.
    if _SVG_START.match(start):
        return SVG
    if _HTML_START.match(start):
        return HTML
    if start.startswith(b"<?xml"):
        return XML
    if start.startswith(b"{\\rtf"):
        return RTF
    return TEXT if readable and start else None


def _is_utf8(head: bytes, *, whole: bool) -> bool:
    """Whether it can be decoded; a character may be cut off at the end unless the head is the `whole` file."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return False
    return True
