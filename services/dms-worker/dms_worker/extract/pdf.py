"""The text of a PDF, page by page, with PDFium.

PDFium's C interface is called directly: its Python helpers take 55 ms longer to import, for every file.
Line order and spaces are PDFium's; lines with right-to-left letters are put in order by `bidi`.
"""

import ctypes
from collections.abc import Iterator
from typing import Any, BinaryIO

import pypdfium2.raw as pdfium

from dms_worker.extract.bidi import RIGHT_TO_LEFT, Glyph, logical_order
from dms_worker.extract.clean import LINE_END_HYPHEN, join_broken_words
from dms_worker.extract.content import Content
from dms_worker.extract.errors import DamagedFile, PasswordRequired, UnsupportedKind
from dms_worker.extract.limits import Limits

_ERRORS = {
    pdfium.FPDF_ERR_PASSWORD: PasswordRequired,
    pdfium.FPDF_ERR_SECURITY: UnsupportedKind,  # encrypted by something that PDFium does not know
}
_MARKED_HYPHEN = 2  # the code that PDFium's character list has where its text has U+FFFE


def read_pdf(file: BinaryIO, _: Limits) -> Content:
    """The text of each page, empty where a page cannot be read. `file` is a real one, not only in memory.

    Raises PasswordRequired, UnsupportedKind, DamagedFile.
    """
    pdfium.FPDF_InitLibraryWithConfig(pdfium.FPDF_LIBRARY_CONFIG(version=2))
    document = pdfium.FPDF_LoadDocument(f"/proc/self/fd/{file.fileno()}".encode(), None)
    if not document:
        raise _ERRORS.get(pdfium.FPDF_GetLastError(), DamagedFile)
    count = pdfium.FPDF_GetPageCount(document)
    return Content(pages=_pages(document, count), page_count=count)


# The handles of PDFium have no types that a checker knows.
def _pages(document: Any, count: int) -> Iterator[str]:  # noqa: ANN401
    """Each page once, and the document closed. Raises DamagedFile at the end where no page could be read."""
    readable = 0
    try:
        for number in range(count):
            text = _page(document, number)
            readable += text is not None
            yield join_broken_words(text or "")
    finally:
        pdfium.FPDF_CloseDocument(document)
    if readable == 0:
        raise DamagedFile


def _page(document: Any, number: int) -> str | None:  # noqa: ANN401
    page = pdfium.FPDF_LoadPage(document, number)
    if not page:
        return None
    try:
        text_page = pdfium.FPDFText_LoadPage(page)
        if not text_page:
            return None
        try:
            return _text(text_page)
        finally:
            pdfium.FPDFText_ClosePage(text_page)
    finally:
        pdfium.FPDF_ClosePage(page)


def _text(text_page: Any) -> str:  # noqa: ANN401
    count = pdfium.FPDFText_CountChars(text_page)
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()  # UTF-16 with a final NUL
    written = pdfium.FPDFText_GetText(text_page, 0, count, buffer)
    text = bytes(buffer)[: 2 * max(written - 1, 0)].decode("utf-16-le", errors="surrogatepass")
    if RIGHT_TO_LEFT.search(text) is None:
        return text
    return "\n".join(_line(text_page, start, end) for start, end in _lines(text_page, count))


def _lines(text_page: Any, count: int) -> Iterator[tuple[int, int]]:  # noqa: ANN401
    """Index ranges of the characters between line breaks."""
    start = 0
    for index in range(count):
        if pdfium.FPDFText_GetUnicode(text_page, index) in (0x0A, 0x0D):
            if start < index:
                yield start, index
            start = index + 1
    if start < count:
        yield start, count


def _line(text_page: Any, start: int, end: int) -> str:  # noqa: ANN401
    text = "".join(_character(text_page, index) for index in range(start, end))
    if RIGHT_TO_LEFT.search(text) is None:
        return text
    if any(0.1 < pdfium.FPDFText_GetCharAngle(text_page, index) < 6.1 for index in range(start, end)):  # radians
        return text  # turned text has no left and right
    return logical_order([_glyph(text_page, index) for index in range(start, end)])


def _character(text_page: Any, index: int) -> str:  # noqa: ANN401
    code = pdfium.FPDFText_GetUnicode(text_page, index)
    if code == _MARKED_HYPHEN and pdfium.FPDFText_IsHyphen(text_page, index) == 1:
        return LINE_END_HYPHEN
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def _glyph(text_page: Any, index: int) -> Glyph:  # noqa: ANN401
    origin_x, origin_y, left, right, bottom, top = (ctypes.c_double() for _ in range(6))
    pdfium.FPDFText_GetCharOrigin(text_page, index, origin_x, origin_y)
    pdfium.FPDFText_GetCharBox(text_page, index, left, right, bottom, top)
    return Glyph(
        text=_character(text_page, index),
        origin=(origin_x.value, origin_y.value),
        left=left.value,
        right=right.value,
        bottom=bottom.value,
        top=top.value,
    )
