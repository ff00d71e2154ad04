"""How fast text comes out of PDF files, next to bare PDFium in this process in the same run.

    python bench/extract.py [PAGES]

One JSON object per line: `{"bench": "extract", "case": "pages", "pages", "ours_pages_per_s", "floor_pages_per_s",
"ratio"}` for one long file, and `{"bench": "extract", "case": "start", "ours_ms", "floor_ms", "overhead_ms"}` for a
file of one page, where ours is mostly the start of the child process. The floor opens the file and takes the raw text
of every page: no child, no cleaning. Each is the best of five rounds, taken in turn.
"""

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`

import asyncio
import json
import tempfile
import time
from pathlib import Path

import pypdfium2
from fpdf import FPDF

from dms_worker.extract.limits import Limits
from dms_worker.extract.runner import extract_text

PAGES = 500
ROUNDS = 5
LINES = 45
LINE = "Der Raum ist genau dann zusammenhängend, wenn er nicht in zwei offene Mengen zerfällt (Satz {}). "


def make_pdf(file: Path, pages: int) -> None:
    document = FPDF()
    document.set_font("Helvetica", size=10)
    for page in range(pages):
        document.add_page()
        for line in range(LINES):
            document.cell(h=5, text=LINE.format(page * LINES + line), new_x="LMARGIN", new_y="NEXT")
    document.output(str(file))


def floor(file: Path) -> int:
    with pypdfium2.PdfDocument(file) as document:
        characters = 0
        for page in document:
            text_page = page.get_textpage()
            characters += len(text_page.get_text_range())
            text_page.close()
            page.close()
        return characters


async def compare(file: Path) -> tuple[float, float]:
    """Seconds of ours and of the floor."""
    ours, bare = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await extract_text(file, "application/pdf", Limits())
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        floor(file)
        bare.append(time.perf_counter() - start)
    return min(ours), min(bare)


async def main(pages: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.pdf"
        make_pdf(file, pages)
        ours, bare = await compare(file)
        rates = {"ours_pages_per_s": round(pages / ours), "floor_pages_per_s": round(pages / bare)}
        print(
            json.dumps({"bench": "extract", "case": "pages", "pages": pages, **rates, "ratio": round(bare / ours, 3)})
        )
        make_pdf(file, 1)
        ours, bare = (1000 * seconds for seconds in await compare(file))
        times = {"ours_ms": round(ours, 1), "floor_ms": round(bare, 1), "overhead_ms": round(ours - bare, 1)}
        print(json.dumps({"bench": "extract", "case": "start", **times}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PAGES))
