"""The documents of the demonstration, made here: what they hold is known, so what is found can be checked."""

import io
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file and what must come of it: `finds` are queries that must find it, `fails` a failure's code."""

    file: Path
    mime_type: str
    finds: tuple[str, ...] = ()
    fails: str | None = None
    foreign: bool = False  # not made here: it may fail, and lack a word that another file has


@dataclass(frozen=True, slots=True)
class _Recipe:
    name: str
    mime_type: str
    make: Callable[[], bytes]
    finds: tuple[str, ...] = ()
    fails: str | None = None


def make_samples(folder: Path) -> list[Sample]:
    """Write the documents into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = []
    for recipe in _RECIPES:
        file = folder / recipe.name
        file.write_bytes(recipe.make())
        samples.append(Sample(file, recipe.mime_type, recipe.finds, recipe.fails))
    return samples


def _invoice() -> bytes:
    return _pdf(
        ["Rechnung 2026-1147", "Firma Müller & Söhne, Größe: 42 Stück", "Zahlbar innerhalb von vierzehn Tagen."]
    )


def _handbook() -> bytes:
    """Two hundred pages, so that the worker has something to do."""
    chapter = "Die Wartung der Anlage wird halbjährlich durchgeführt und im Prüfbuch vermerkt. "
    return _pdf(*([f"Kapitel {number}", *[chapter] * 20] for number in range(1, 200)), ["Schlusswort Leuchtturm"])


def _delivery_note() -> bytes:
    from docx import Document  # noqa: PLC0415 - an optional dependency

    document = Document()
    document.add_heading("Lieferschein", level=1)
    document.add_paragraph("Empfänger: Straßenmeisterei Öhringen")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Winterreifen", "4"
    output = io.BytesIO()
    document.save(output)
    return output.getvalue()


def _decomposed_note() -> bytes:
    """A text as macOS writes names: each umlaut as two code points (NFD)."""
    return unicodedata.normalize("NFD", "Gesprächsnotiz: Rückruf bei Frau Weiß am Montag.\n").encode()


def _long_text() -> bytes:
    line = "Messwert {:07d} wurde ohne Befund aufgezeichnet.\n"
    return "".join(line.format(number) for number in range(60_000)).encode() + b"Ende der Messreihe Polarstern\n"


def _damaged() -> bytes:
    return b"%PDF-1.7\nthis file was cut off on its way\n"


def _pdf(*pages: list[str]) -> bytes:
    from fpdf import FPDF  # noqa: PLC0415 - an optional dependency

    document = FPDF()
    document.set_font("Helvetica", size=12)
    for lines in pages:
        document.add_page()
        for line in lines:
            document.multi_cell(0, 8, line, new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


_RECIPES = (
    _Recipe("Rechnung Müller.pdf", PDF, _invoice, finds=("Müller", "Mueller", "MULLER", "vierzehn")),
    _Recipe("Wartungshandbuch.pdf", PDF, _handbook, finds=("Leuchtturm", "Wartungen")),
    _Recipe("Lieferschein.docx", DOCX, _delivery_note, finds=("Winterreifen", "Strassenmeisterei")),
    _Recipe("Gesprächsnotiz.txt", TEXT, _decomposed_note, finds=("Rückruf", "Gesprächsnotiz")),
    _Recipe("Messreihe.txt", TEXT, _long_text, finds=("Polarstern", "0059999")),
    _Recipe("beschädigt.pdf", PDF, _damaged, fails="damaged-file"),
)
