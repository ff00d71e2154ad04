"""What kind of document a compound file (OLE) is, told by the names in its directory: old Office, Outlook, Visio.

At most 64 sectors of the directory are read. Source: [MS-CFB] 2.2 (header), 2.3 (FAT), 2.6 (directory entries).
"""

import struct
from collections.abc import Callable, Iterator

OLE = "application/x-ole-storage"
SIGNATURE = bytes.fromhex("d0cf11e0a1b11ae1")

_BY_NAME = {
    "WordDocument": "application/msword",
    "Workbook": "application/vnd.ms-excel",
    "Book": "application/vnd.ms-excel",
    "PowerPoint Document": "application/vnd.ms-powerpoint",
    "VisioDocument": "application/vnd.visio",
    "__properties_version1.0": "application/vnd.ms-outlook",
}
_HEADER = struct.Struct("<8s22xH16xI24x109I")  # signature, sector shift, first directory sector, FAT sectors
_ENTRY_SIZE = 128
_NAME_SIZE = 64
_MOST_SECTORS = 64
_REGULAR = 0xFFFFFFFA  # sector numbers from here on mean something else

ReadAt = Callable[[int, int], bytes]


def compound_type(read_at: ReadAt) -> str:
    """The type of a file that begins as a compound file does; OLE for any other kind, and for a damaged one.

    `read_at(offset, length)` gives bytes of the file, fewer only at its end.
    """
    for name in _names(read_at):
        if name in _BY_NAME:
            return _BY_NAME[name]
    return OLE


def _names(read_at: ReadAt) -> Iterator[str]:
    header = read_at(0, _HEADER.size)
    if len(header) < _HEADER.size:
        return
    _, shift, sector, *fat = _HEADER.unpack(header)
    if shift not in (9, 12):
        return
    size = 1 << shift
    for _ in range(_MOST_SECTORS):
        if sector >= _REGULAR:
            return
        entries = read_at((sector + 1) << shift, size)
        for at in range(0, len(entries) - _ENTRY_SIZE + 1, _ENTRY_SIZE):
            length = int.from_bytes(entries[at + _NAME_SIZE : at + _NAME_SIZE + 2], "little")
            yield entries[at : at + max(0, min(length, _NAME_SIZE) - 2)].decode("utf-16-le", "replace")
        sector = _next(read_at, fat, sector, size)


def _next(read_at: ReadAt, fat: list[int], sector: int, size: int) -> int:
    """The sector that follows in its chain; the directory begins in front, so the FAT sectors of the header suffice."""
    index, at = divmod(sector, size // 4)
    if index >= len(fat) or fat[index] >= _REGULAR:
        return _REGULAR
    number = read_at((fat[index] + 1) * size + at * 4, 4)
    return int.from_bytes(number, "little") if len(number) == 4 else _REGULAR
