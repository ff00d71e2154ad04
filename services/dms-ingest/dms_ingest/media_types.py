"""Which type a file is stored as: what its sender announced, checked against what its bytes show.

- Announced as `application/octet-stream`, "I do not know": what the bytes show.
- Announced as a type that its bytes would show, or as text: what they contradict is refused.
- Announced as any other type: taken at its word. It is never shown in a browser (`disposition`).
"""

import re
from collections.abc import Collection

from dms_ingest import compound_files, sniffing, zip_members
from dms_ingest.sniffing import Shown
from nexarch.errors import UnsupportedType

_OCTETS = "application/octet-stream"
_ODF = "application/vnd.oasis.opendocument."
_OOXML = "application/vnd.openxmlformats-officedocument."

# Other names of a type, and the one that we use.
_ALIASES = {
    "application/x-pdf": sniffing.PDF,
    "application/x-rtf": sniffing.RTF,
    "application/x-zip-compressed": zip_members.ZIP,  # Windows
    "application/xml": sniffing.XML,
    "binary/octet-stream": _OCTETS,
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-ms-bmp": "image/bmp",
    "image/x-png": "image/png",
    "text/rtf": sniffing.RTF,
}
# Types that their own bytes show, and nothing else does.
_TOLD = {
    sniffing.PDF,
    sniffing.RTF,
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/heic",
    "image/heif",
    "image/jpeg",
    "image/png",
    "image/tiff",
    "image/webp",
    zip_members.EPUB,
    zip_members.ZIP,
    zip_members.DOCM,
    zip_members.XLSM,
    zip_members.XLSB,
    zip_members.PPTM,
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-outlook",
    "application/vnd.ms-powerpoint",
}
# Types whose content is told by what else it may be: a template has the members of a document, and Office puts a file
# with a password into a compound file.
_SHOWN_AS = (
    (f"{_OOXML}wordprocessingml.", {zip_members.DOCX, compound_files.OLE}),
    (f"{_OOXML}spreadsheetml.", {zip_members.XLSX, compound_files.OLE}),
    (f"{_OOXML}presentationml.", {zip_members.PPTX, compound_files.OLE}),
)
_TEXTS = {sniffing.SVG, "application/json", "application/xhtml+xml"}  # and text/*
_NAME = "[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"  # RFC 6838, 4.2
_TYPE = re.compile(f"{_NAME}/{_NAME}")
_RANGE = re.compile(rf"{_NAME}/(?:{_NAME}|\*)")


class ContentMismatch(UnsupportedType):
    """The bytes are those of another type than the one that was announced; `found` is what they show, if anything."""

    code = "content-type-mismatch"
    title = "The content is of another type"


class TypeNotAllowed(UnsupportedType):
    """The type is not on the allow-list; `accepted` is the list."""

    code = "type-not-allowed"


def essence(mime_type: str) -> str:
    """The type without its parameters, in lower case (RFC 9110, 8.3.1); ValueError for what is no media type."""
    bare = mime_type.partition(";")[0].strip().lower()
    if not _TYPE.fullmatch(bare):
        raise ValueError("this is not a media type")
    return bare


def is_media_range(text: str) -> bool:
    """Whether this can stand on an allow-list: a media type or type/*, in lower case, without parameters."""
    return _RANGE.fullmatch(text) is not None


def check_allowed(mime_type: str, allowed: Collection[str]) -> None:
    """Raise TypeNotAllowed unless the type, or all types of its kind (`image/*`), are on the list."""
    known = _ALIASES.get(mime_type, mime_type)
    if known not in allowed and mime_type not in allowed and f"{known.partition('/')[0]}/*" not in allowed:
        raise TypeNotAllowed(f"Files of the type {mime_type} are not accepted.", accepted=[*sorted(allowed)])


def settle_type(announced: str, shown: Shown) -> str:
    """The type to store, from the announced one and what the bytes show.

    Raises ContentMismatch where the bytes contradict what was announced.
    """
    known = _ALIASES.get(announced, announced)
    found = shown.media_type
    if known == _OCTETS:
        return found or _OCTETS
    if known == zip_members.ZIP and found is not None and _is_zip(found):
        return found
    if _contradict(shown, known):
        raise ContentMismatch(
            f"The file was announced as {announced}, but its bytes are not those of one.",
            announced=announced,
            found=found,
        )
    return known


def _contradict(shown: Shown, known: str) -> bool:
    if known in _TEXTS or (known.startswith("text/")):
        return not shown.may_be_text
    if known in _TOLD or known.startswith(_ODF):
        return shown.media_type != known
    return any(known.startswith(prefix) and shown.media_type not in types for prefix, types in _SHOWN_AS)


def _is_zip(found: str) -> bool:
    """Whether files of a type that bytes show are ZIP files."""
    return found in zip_members.TYPES or found.startswith(_ODF)
