"""What kind of package a ZIP file is, told by the names of its members: Office, OpenDocument, EPUB.

Only the names are read, and of a central directory at most a MiB: nothing is unpacked, so there is no bomb to go off.
Source: APPNOTE.TXT 6.3.10 (sections 4.3.7, 4.3.12, 4.3.16), OpenDocument 1.3 part 2 (3.3), EPUB OCF 3.3 (4.3).
"""

import re
import struct
from collections.abc import Callable, Iterator

ZIP = "application/zip"
EPUB = "application/epub+zip"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OFFICE}wordprocessingml.document"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
PPTX = f"{_OFFICE}presentationml.presentation"
DOCM = "application/vnd.ms-word.document.macroenabled.12"
XLSM = "application/vnd.ms-excel.sheet.macroenabled.12"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
PPTM = "application/vnd.ms-powerpoint.presentation.macroenabled.12"
VSDX = "application/vnd.ms-visio.drawing.main+xml"
JAR = "application/java-archive"
TYPES = frozenset({ZIP, EPUB, DOCX, XLSX, PPTX, DOCM, XLSM, XLSB, PPTM, VSDX, JAR})  # and those of OpenDocument

_LOCAL = struct.Struct("<4s5H3I2H")  # signature .. length of the name, of the extra field
_CENTRAL = struct.Struct("<4s6H3I5H2I")  # signature .. name, extra, comment lengths .. offset
_END = struct.Struct("<4s4H2IH")  # signature .. size and offset of the central directory, comment length
_LONGEST_COMMENT = 0xFFFF
_MOST_DIRECTORY = 1 << 20
# The first member of an OpenDocument or EPUB file is called so, and is that type, uncompressed.
_MIMETYPE = b"mimetype"
_DECLARED = re.compile(rb"application/(?:epub\+zip|vnd\.oasis\.opendocument\.[a-z]+(?:-[a-z]+)*)")

ReadAt = Callable[[int, int], bytes]


def package_type(read_at: ReadAt, size: int) -> str:
    """The type of a file that begins as a ZIP file does; ZIP where its members show nothing, or it is damaged.

    `read_at(offset, length)` gives bytes of the file, fewer only at its end; `size` is the file's length.
    """
    if declared := _declared_type(read_at):
        return declared
    names = set(_names(read_at, size))
    if b"[Content_Types].xml" in names:
        return _office_type(names)
    return JAR if b"META-INF/MANIFEST.MF" in names else ZIP


def _declared_type(read_at: ReadAt) -> str | None:
    head = read_at(0, 256)
    if len(head) < _LOCAL.size:
        return None
    _, _, _, method, _, _, _, packed, _, name_length, extra_length = _LOCAL.unpack_from(head)
    start = _LOCAL.size + name_length + extra_length
    if head[_LOCAL.size : _LOCAL.size + name_length] != _MIMETYPE or method != 0:
        return None
    declared = head[start : start + packed]
    return declared.decode("ascii") if _DECLARED.fullmatch(declared) else None


def _office_type(names: set[bytes]) -> str:
    if b"word/document.xml" in names:
        return DOCM if b"word/vbaProject.bin" in names else DOCX
    if b"xl/workbook.bin" in names:
        return XLSB
    if b"xl/workbook.xml" in names:
        return XLSM if b"xl/vbaProject.bin" in names else XLSX
    if b"ppt/presentation.xml" in names:
        return PPTM if b"ppt/vbaProject.bin" in names else PPTX
    return VSDX if b"visio/document.xml" in names else ZIP


def _names(read_at: ReadAt, size: int) -> Iterator[bytes]:
    """The names in the central directory, as far as it is whole, with forward slashes."""
    directory = _directory(read_at, size)
    at = 0
    while at + _CENTRAL.size <= len(directory):
        signature, *_, name, extra, comment, _, _, _, _ = _CENTRAL.unpack_from(directory, at)
        if signature != b"PK\x01\x02":
            return
        yield directory[at + _CENTRAL.size : at + _CENTRAL.size + name].replace(b"\\", b"/")
        at += _CENTRAL.size + name + extra + comment


def _directory(read_at: ReadAt, size: int) -> bytes:
    """The central directory, its first MiB at most; empty where there is none."""
    tail_length = min(size, _END.size + _LONGEST_COMMENT)
    tail = read_at(size - tail_length, tail_length)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        return b""
    *_, length, _offset, _comment = _END.unpack_from(tail, at)
    # It ends where the end record begins (or the ZIP64 records before that, which no document of ours needs), whatever
    # was put in front of the file: readers of Office files go by that too.
    start = size - tail_length + at - length
    return read_at(start, min(length, _MOST_DIRECTORY)) if start >= 0 else b""
