"""What a file is, told from its first bytes, against what its sender said it is."""

import re
from collections.abc import Collection

from nexarch.errors import UnsupportedType

HEAD_LENGTH = 1024  # bytes; within them a PDF has its mark, the others at the very start

PDF = "application/pdf"
_ZIP = "application/zip"
_OLE = "application/x-ole-storage"
_OCTETS = "application/octet-stream"

_TOLD = frozenset({PDF, "image/jpeg", "image/png", "image/tiff"})  # told by their bytes alone
_ZIPPED = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_OLD_OFFICE = frozenset({"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"})

# A media type (RFC 6838, 4.2), or type/* for all of one.
_RANGE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/(?:[a-z0-9][a-z0-9!#$&^_.+-]{0,126}|\*)")

_AT_START = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),  # BigTIFF
    (b"MM\x00+", "image/tiff"),
    (b"PK\x03\x04", _ZIP),
    (b"PK\x05\x06", _ZIP),  # without members
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (b"%PDF-", PDF),
)


class ContentMismatch(UnsupportedType):
    """The first bytes are those of another type than the one that was announced."""

    code = "content-type-mismatch"
    title = "The content is of another type"


class TypeNotAllowed(UnsupportedType):
    """The type is not on the allow-list; `accepted` is the list."""

    code = "type-not-allowed"


def is_media_range(text: str) -> bool:
    """Whether this can stand on an allow-list: a media type or type/*, in lower case, without parameters."""
    return _RANGE.fullmatch(text) is not None


def check_allowed(mime_type: str, allowed: Collection[str]) -> None:
    """Raise TypeNotAllowed unless the type, or all types of its kind (`image/*`), are on the list."""
    if mime_type not in allowed and f"{mime_type.partition('/')[0]}/*" not in allowed:
        raise TypeNotAllowed(f"Files of the type {mime_type} are not accepted.", accepted=[*sorted(allowed)])


def detect(head: bytes) -> str | None:
    """The type or container that the first bytes show, or None where they show nothing (text, for one)."""
    for magic, mime_type in _AT_START:
        if head.startswith(magic):
            return mime_type
    return PDF if b"%PDF-" in head[:HEAD_LENGTH] else None


def settle_type(announced: str, head: bytes) -> str:
    """The type to store: the announced one, or a better one for `application/octet-stream`.

    Raises ContentMismatch where the bytes contradict it.
    """
    found = detect(head)
    if announced == _OCTETS:
        return found if found in _TOLD else _OCTETS
    if announced.startswith("text/"):
        # A text may speak of "%PDF-"; only a file that begins with it is one.
        contradicted = found is not None and (found != PDF or head.startswith(b"%PDF-"))
    else:
        wanted = _found_in(announced)
        contradicted = bool(wanted) and found not in wanted
    if contradicted:
        raise ContentMismatch(
            f"The file was announced as {announced}, but its first bytes are not those of one.",
            announced=announced,
            found=found,
        )
    return announced


def _found_in(mime_type: str) -> frozenset[str]:
    """What `detect` finds in a good file of this type; empty where it cannot tell."""
    if mime_type in _TOLD | {_ZIP}:
        return frozenset({mime_type})
    if mime_type.startswith(_ZIPPED):
        return frozenset({_ZIP, _OLE})  # Office puts a file with a password into an OLE container
    return frozenset({_OLE}) if mime_type in _OLD_OFFICE else frozenset()
