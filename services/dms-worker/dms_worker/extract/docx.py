"""The text of a Word file (ECMA-376, WordprocessingML), straight from its XML, part by part as a stream.

Not python-docx: it loads every part and image into memory and leaves out footnotes and text boxes. Here a
part is unpacked in pieces that are counted, a document type declaration ends the reading (ECMA-376 part 2
forbids it, and entity bombs need it), and memory grows with the text alone.
"""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from dms_worker.extract.content import Content
from dms_worker.extract.errors import DamagedFile, PasswordRequired, UnpacksTooLarge, UnsupportedKind
from dms_worker.extract.kinds import OLE_SIGNATURE, ZIP_ERRORS
from dms_worker.extract.limits import Limits

# The namespaces of the transitional and the strict form.
_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_MATH = (
    "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "http://purl.oclc.org/ooxml/officeDocument/math",
)
_COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"

_TEXT = frozenset(f"{space} t" for space in (*_WORD, *_MATH))
_ON_START = {
    f"{space} {name}": text
    for space in _WORD
    for name, text in (("tab", "\t"), ("br", "\n"), ("cr", "\n"), ("noBreakHyphen", "-"), ("softHyphen", ""))
}
_DOCUMENT, _PARAGRAPH, _CELL, _ROW = (
    frozenset(f"{space} {name}" for space in _WORD) for name in ("document", "p", "tc", "tr")
)
# Text that is not read: tab stops (their `tab` is no character), what was moved away, and what Fallback says
# again, for old programs, after Choice.
_HIDDEN = frozenset(
    (*(f"{space} {name}" for space in _WORD for name in ("tabs", "moveFrom")), f"{_COMPATIBILITY} Fallback")
)

_READING_ORDER = ("header", "", "footnotes", "endnotes", "footer")  # "" is the main document
_ENTRIES = 10_000  # members of one package
_PIECE = 64 * 1024  # bytes unpacked at a time
_ENCRYPTED = 0x1  # bit of the general purpose flags
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # all that ECMA-376 part 2 allows


class _Enough(Exception):
    """The text is longer than the limit; raised inside the parser to leave it."""


def read_docx(file: BinaryIO, limits: Limits) -> Content:
    """The document as one page, cut at `limits.characters`.

    Headers first, then the document, foot- and endnotes, footers; a table row is a line.
    Raises PasswordRequired, DamagedFile, UnsupportedKind, UnpacksTooLarge.
    """
    if file.read(8) == OLE_SIGNATURE:
        # Word wraps an encrypted document in an OLE file (MS-OFFCRYPTO), in a stream of this name.
        raise PasswordRequired if "EncryptedPackage".encode("utf-16-le") in file.read() else UnsupportedKind
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_package(_Package(archive, limits.unpacked_bytes), limits)
    except (*ZIP_ERRORS, EOFError, zlib.error, expat.ExpatError) as error:
        raise DamagedFile from error


class _Package:
    """The members of one zip file, and how many bytes may still come out of them."""

    def __init__(self, archive: zipfile.ZipFile, unpacked_bytes: int) -> None:
        if len(archive.filelist) > _ENTRIES:
            raise UnpacksTooLarge
        self._archive = archive
        self._left = unpacked_bytes

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of a member. Counted as they come: the size that the directory claims may be a lie."""
        try:
            member = self._archive.getinfo(name)
        except KeyError as error:
            raise DamagedFile from error
        if member.flag_bits & _ENCRYPTED:
            raise PasswordRequired
        if member.compress_type not in _METHODS:
            raise DamagedFile
        with self._archive.open(member) as stream:
            while piece := stream.read(_PIECE):
                self._left -= len(piece)
                if self._left < 0:
                    raise UnpacksTooLarge
                yield piece

    def has(self, name: str) -> bool:
        return name in self._archive.NameToInfo


def _read_package(package: _Package, limits: Limits) -> Content:
    roots = _related(package, "")
    main = next((target for kind, target in roots if kind == "officeDocument"), None)
    if main is None:
        raise DamagedFile
    parts = [("", main), *_related(package, main)]
    collected = _Text(limits.characters)
    try:
        for wanted in _READING_ORDER:
            for target in dict.fromkeys(target for kind, target in parts if kind == wanted):
                _parse(package, target, collected)
                if target == main and collected.root not in _DOCUMENT:
                    raise UnsupportedKind  # a workbook or slides, called a document
    except _Enough:
        return Content(pages=iter([collected.text()]), cut=True)
    return Content(pages=iter([collected.text()]))


def _related(package: _Package, part: str) -> list[tuple[str, str]]:
    """The (kind, name) of every part that `part` refers to; of the whole package for the empty name."""
    folder, base = posixpath.split(part)
    relations = posixpath.join(folder, "_rels", f"{base}.rels")
    if not package.has(relations):
        return []
    found: list[tuple[str, str]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        kind, target = attributes.get("Type", ""), attributes.get("Target", "")
        if name.endswith(" Relationship") and attributes.get("TargetMode") != "External":
            place = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found.append((kind.rpartition("/relationships/")[2], place))

    parser = _parser()
    parser.StartElementHandler = start
    _feed(parser, package, relations)
    return found


class _Text:
    """Handlers that collect the text of one part after another."""

    def __init__(self, most: int) -> None:
        self.root = ""  # the outermost element of the part read last
        self._depth = 0
        self._pieces: list[str] = []
        self._left = most
        self._inside_text = False
        self._cells = 0  # depth of tables
        self._hidden = 0  # depth inside elements whose text does not count

    def text(self) -> str:
        return "".join(self._pieces)

    def start(self, name: str, _: dict[str, str]) -> None:
        if self._depth == 0:
            self.root = name
        self._depth += 1
        if self._hidden or name in _HIDDEN:
            self._hidden += 1
        elif name in _TEXT:
            self._inside_text = True
        elif name in _CELL:
            self._cells += 1
        elif name in _ON_START:
            self._add(_ON_START[name])

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._hidden:
            self._hidden -= 1
        elif name in _TEXT:
            self._inside_text = False
        elif name in _CELL:
            self._cells -= 1
            self._add("\t")
        elif name in _PARAGRAPH:
            self._add(" " if self._cells else "\n")
        elif name in _ROW:
            self._add("\n")

    def characters(self, data: str) -> None:
        if self._inside_text and not self._hidden:
            self._add(data)

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _Enough


def _parse(package: _Package, name: str, collected: _Text) -> None:
    parser = _parser()
    parser.StartElementHandler = collected.start
    parser.EndElementHandler = collected.end
    parser.CharacterDataHandler = collected.characters
    _feed(parser, package, name)


def _parser() -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


def _refuse_doctype(*_: object) -> None:
    raise DamagedFile


def _feed(parser: expat.XMLParserType, package: _Package, name: str) -> None:
    for piece in package.pieces(name):
        parser.Parse(piece, False)
    parser.Parse(b"", True)
