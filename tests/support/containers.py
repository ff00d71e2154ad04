"""Files that hold files, as small as they can be: ZIP packages and compound files (OLE)."""

import io
import struct
import zipfile

_FREE, _END_OF_CHAIN, _FAT_SECTOR = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def package(*names: str, mimetype: str | None = None, comment: bytes = b"") -> bytes:
    """A ZIP file with members of these names; as OpenDocument and EPUB have it, with its type in front."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        if mimetype is not None:
            archive.writestr("mimetype", mimetype, zipfile.ZIP_STORED)
        for name in names:
            archive.writestr(name, "<xml/>")
        archive.comment = comment
    return file.getvalue()


def office(*names: str) -> bytes:
    """An Office package with these members."""
    return package("[Content_Types].xml", "_rels/.rels", *names)


def compound(*names: str, behind: int = 0) -> bytes:
    """A compound file whose directory lists these streams; with `behind`, after so many sectors of other entries."""
    sector = 512
    entries = [
        _entry("Root Entry", 5),
        *(_entry("Other", 2) for _ in range(behind * 4)),
        *(_entry(n, 2) for n in names),
    ]
    directory = b"".join(entries)
    directory += bytes(-len(directory) % sector)
    count = len(directory) // sector
    # Sector 0 is the FAT, the directory follows.
    fat = [_FAT_SECTOR, *range(2, count + 1), _END_OF_CHAIN]
    fat += [_FREE] * (sector // 4 - len(fat))
    header = struct.pack(
        "<8s16x5H6x9I109I",
        bytes.fromhex("d0cf11e0a1b11ae1"), 0x3E, 3, 0xFFFE, 9, 6,
        0, 1, 1, 0, 4096, _END_OF_CHAIN, 0, _END_OF_CHAIN, 0,
        0, *[_FREE] * 108,
    )  # fmt: skip
    return header + struct.pack("<128I", *fat) + directory


def _entry(name: str, kind: int) -> bytes:
    encoded = name.encode("utf-16-le") + b"\0\0"
    return encoded.ljust(64, b"\0") + struct.pack("<HB", len(encoded), kind) + bytes(61)
