"""Plain text in the encodings that people have: UTF-8, UTF-16 or UTF-32 with its mark, Windows-1252."""

import codecs
from typing import BinaryIO

from dms_worker.extract.content import Content
from dms_worker.extract.limits import Limits

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PAGE_BREAKS = str.maketrans("\v\f", "\n\n")


def read_text(file: BinaryIO, limits: Limits) -> Content:
    """The file as one page, read as far as it may matter."""
    most = 4 * limits.characters
    data = file.read(most)
    cut = len(data) == most and file.read(1) != b""
    text = _decoded(data, cut=cut).translate(_PAGE_BREAKS)
    return Content(pages=iter([text]), cut=cut)


def _decoded(data: bytes, *, cut: bool) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:  # one of the five bytes that Windows-1252 leaves open
        return data.decode("latin-1")
