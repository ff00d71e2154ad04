import io
import zipfile

import pytest

from dms_worker.extract.errors import UnsupportedKind
from dms_worker.extract.kinds import Kind, declared_kind, kind_of_bytes


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("application/pdf", Kind.PDF),
        ("Application/PDF; version=1.7", Kind.PDF),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Kind.DOCX),
        ("text/markdown;charset=utf-8", Kind.TEXT),
        ("application/octet-stream", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
    ],
)
def test_the_declared_type_names_the_kind(mime_type: str, kind: Kind) -> None:
    assert declared_kind(mime_type) is kind


@pytest.mark.parametrize("mime_type", ["image/png", "text/html", "application/pdf\0", "nonsense"])
def test_another_declared_type_is_refused(mime_type: str) -> None:
    with pytest.raises(UnsupportedKind):
        declared_kind(mime_type)


def zipped(*names: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n", Kind.PDF),
        (b"\xef\xbb\xbf%PDF-1.7\n", Kind.PDF),
        (b"\0" * 1000 + b"%PDF-1.7\n", Kind.PDF),
        (zipped("[Content_Types].xml", "word/document.xml"), Kind.DOCX),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504), Kind.DOCX),
        (b"", Kind.TEXT),
        ("Größe".encode(), Kind.TEXT),
        (b"\xff\xfea\0", Kind.TEXT),
        ("ä".encode() * 40_000 + b"!", Kind.TEXT),
        (b"!" + "ä".encode() * 40_000, Kind.TEXT),
    ],
    ids=range(10),
)
def test_the_bytes_show_the_kind(data: bytes, kind: Kind) -> None:
    file = io.BytesIO(data)

    assert kind_of_bytes(file) is kind
    assert file.tell() == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0",
        zipped("[Content_Types].xml", "xl/workbook.xml"),
        b"PK\x03\x04 and no more",
        b"Gr\xf6\xdfe",
    ],
    ids=range(5),
)
def test_bytes_of_no_kind_of_ours_are_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedKind):
        kind_of_bytes(io.BytesIO(data))
