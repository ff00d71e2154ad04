"""Byte ranges of a download (RFC 9110, section 14): one range at most, everything else is the whole."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from nexarch.errors import NexarchError

_ONE_RANGE = re.compile(r"bytes=[ \t]*(?:(\d{1,19})-(\d{1,19})?|-(\d{1,19}))[ \t]*", re.IGNORECASE | re.ASCII)


class RangeNotSatisfiable(NexarchError):
    """The range begins behind the end of the file; `size` says where that is, in bytes."""

    code = "range-not-satisfiable"
    status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    title = "The file is shorter than that"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` up to but without `stop` of `size`."""

    start: int
    stop: int
    size: int

    @property
    def content_range(self) -> str:
        """The value of Content-Range."""
        return f"bytes {self.start}-{self.stop - 1}/{self.size}"


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """The range that a `Range` header asks for; None for the whole file. Raises RangeNotSatisfiable.

    A server may ignore the header (RFC 9110, 14.2); we do for several ranges, other units and what is malformed.
    """
    match = _ONE_RANGE.fullmatch(header) if header is not None else None
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start = int(first)
        stop = size if last is None else min(size, int(last) + 1)
        if last is not None and int(last) < start:
            return None  # malformed (14.1.1)
    if start >= stop:
        raise RangeNotSatisfiable(f"The file has {size} bytes.", size=size)
    return ByteRange(start, stop, size)
