"""What stands in the headers of tus 1.0 (https://tus.io/protocols/resumable-upload), read strictly and written anew.

Nothing that came in a header goes out in one as it came: what is answered is made from what was read.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import urlsplit
from uuid import UUID

from dms_ingest.checksums import ALGORITHMS, Checksum
from dms_ingest.upload_sessions import UploadNotFound
from nexarch.errors import Invalid, PreconditionFailed

VERSION = "1.0.0"
EXTENSIONS = (
    "creation",
    "creation-with-upload",
    "creation-defer-length",
    "expiration",
    "checksum",
    "termination",
    "concatenation",
)
CHUNK_TYPE = "application/offset+octet-stream"

_NUMBER = re.compile(r"[0-9]{1,18}")
_KEY = re.compile(r"[!-+\x2d-~]+")  # visible ASCII without the comma
_URL_OF_UPLOAD = re.compile(r"(?:.*/)?files/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


class VersionUnknown(PreconditionFailed):
    """The request has no `Tus-Resumable`, or names another version than those in the answer's `Tus-Version`."""

    code = "tus-version-unknown"
    title = "This version of tus is not spoken here"


class HeaderRefused(Invalid):
    """A header of tus is missing, comes twice, or has not the form that the protocol gives it; `header` names it."""

    code = "tus-header-refused"
    status = 400
    title = "A header of tus is not in its form"


@dataclass(frozen=True, slots=True)
class Concat:
    """`Upload-Concat`: a part (`parts` is None), or a file that is put together from the parts in their order."""

    parts: tuple[UUID, ...] | None


def check_version(value: str | None) -> None:
    """Raise VersionUnknown for any `Tus-Resumable` but ours."""
    if value != VERSION:
        raise VersionUnknown(f"Send Tus-Resumable: {VERSION}.", versions=[VERSION])


def number(header: str, value: str | None) -> int | None:
    """A size or an offset in bytes, None without the header."""
    if value is None:
        return None
    if not _NUMBER.fullmatch(value):
        raise HeaderRefused(f"{header} is a number of bytes, at most 18 digits.", header=header)
    return int(value)


def defers_length(value: str | None) -> bool:
    """Whether `Upload-Defer-Length` says that the length comes later."""
    if value not in {None, "1"}:
        raise HeaderRefused("Upload-Defer-Length is 1 or absent.", header="Upload-Defer-Length")
    return value is not None


def checksum(value: str | None) -> Checksum | None:
    """What `Upload-Checksum` says of the chunk: an algorithm, a space, the digest in base64."""
    if value is None:
        return None
    algorithm, _, encoded = value.partition(" ")
    if algorithm not in ALGORITHMS:
        raise HeaderRefused(f"The checksums are {', '.join(ALGORITHMS)}.", header="Upload-Checksum")
    expected = _decoded("Upload-Checksum", encoded)
    if len(expected) != hashlib.new(algorithm, usedforsecurity=False).digest_size:
        raise HeaderRefused(f"This is no digest of {algorithm}.", header="Upload-Checksum")
    return Checksum(algorithm, expected)


def metadata(value: str | None) -> dict[str, bytes]:
    """The pairs of `Upload-Metadata`, in their order."""
    pairs: dict[str, bytes] = {}
    if value is None or not value.strip(" "):  # tuspy sends an empty header for none
        return pairs
    for pair in value.split(","):
        key, _, encoded = pair.strip(" ").partition(" ")
        if not _KEY.fullmatch(key) or key in pairs:
            raise HeaderRefused("Each key is visible ASCII and comes once.", header="Upload-Metadata")
        pairs[key] = _decoded("Upload-Metadata", encoded)
    return pairs


def metadata_header(pairs: Mapping[str, bytes]) -> str | None:
    """These pairs as `Upload-Metadata`; None for none, as the header may not be empty."""
    return ",".join(f"{key} {base64.b64encode(value).decode()}".rstrip(" ") for key, value in pairs.items()) or None


def concat(value: str | None) -> Concat | None:
    """What `Upload-Concat` says. Raises UploadNotFound for an address that is not that of an upload here."""
    if value is None:
        return None
    kind, _, urls = value.partition(";")
    if value == "partial":
        return Concat(None)
    if kind != "final" or not urls.split():
        raise HeaderRefused("Upload-Concat is `partial` or `final;` and addresses of uploads.", header="Upload-Concat")
    return Concat(tuple(_upload_at(url) for url in urls.split()))


def concat_header(kind: str, parts: Iterable[UUID] | None) -> str:
    """`Upload-Concat` of a session of this kind."""
    return kind if parts is None else f"{kind};{' '.join(f'/files/{part}' for part in parts)}"


def expires(at: datetime) -> str:
    """A time as HTTP writes it (RFC 9110, 5.6.7)."""
    return format_datetime(at, usegmt=True)


def _upload_at(url: str) -> UUID:
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise UploadNotFound("There is no such upload.") from error
    match = _URL_OF_UPLOAD.fullmatch(path)
    if match is None or "/../" in path or "/./" in path:
        raise UploadNotFound("There is no such upload.")
    return UUID(match[1])


def _decoded(header: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise HeaderRefused("The value is not base64.", header=header) from error
