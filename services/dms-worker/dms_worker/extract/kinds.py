"""Which reader a file gets: by its declared type, or by its bytes where the declared type says nothing."""

import codecs
import zipfile
from enum import StrEnum
from typing import BinaryIO

from dms_worker.extract.errors import UnsupportedKind


class Kind(StrEnum):
    """A family of formats that one reader reads."""

    PDF = "pdf"
    DOCX = "docx"
    TEXT = "text"
    UNKNOWN = "unknown"  # to be told from the bytes


_DECLARED = {
    "application/pdf": Kind.PDF,
    "application/x-pdf": Kind.PDF,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": Kind.DOCX,
    "text/plain": Kind.TEXT,
    "text/csv": Kind.TEXT,
    "text/markdown": Kind.TEXT,
    # What clients say when they do not know; libmagic 5.44 calls a DOCX a zip.
    "": Kind.UNKNOWN,
    "application/octet-stream": Kind.UNKNOWN,
    "binary/octet-stream": Kind.UNKNOWN,
    "application/zip": Kind.UNKNOWN,
    "application/x-zip-compressed": Kind.UNKNOWN,
}
# zipfile also seeks to wherever a damaged directory points, and decodes whatever name it finds.
ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, OSError, ValueError)
_HEAD = 64 * 1024  # bytes looked at; the PDF header may stand anywhere in the first 1,024 (ISO 32000-1, annex H)
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BINARY = bytes(sorted(set(range(32)) - set(b"\t\n\r\f\x1b")))
OLE_SIGNATURE = bytes.fromhex("d0cf11e0a1b11ae1")


def declared_kind(mime_type: str) -> Kind:
    """The kind that a content type names, parameters ignored. Raises UnsupportedKind for any other."""
    essence = mime_type.partition(";")[0].strip().lower()
    try:
        return _DECLARED[essence]
    except KeyError as error:
        raise UnsupportedKind from error


def kind_of_bytes(file: BinaryIO) -> Kind:
    """The kind that the bytes show; the position is back at the start. Raises UnsupportedKind."""
    head = file.read(_HEAD)
    file.seek(0)
    if b"%PDF-" in head[:1024]:
        return Kind.PDF
    if head.startswith((b"PK\x03\x04", OLE_SIGNATURE)):  # a DOCX with a password is an OLE file
        return _kind_of_package(file)
    if _is_text(head):
        return Kind.TEXT
    raise UnsupportedKind


def _kind_of_package(file: BinaryIO) -> Kind:
    if file.read(8) == OLE_SIGNATURE:
        file.seek(0)
        return Kind.DOCX
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as package:
            named = package.NameToInfo
    except ZIP_ERRORS as error:
        raise UnsupportedKind from error
    file.seek(0)
    if "[Content_Types].xml" in named and "word/document.xml" in named:
        return Kind.DOCX
    raise UnsupportedKind


def _is_text(head: bytes) -> bool:
    if head.startswith(_BOMS):
        return True
    if head.translate(None, _BINARY) != head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < _HEAD)
    except UnicodeDecodeError:
        return False
    return True
