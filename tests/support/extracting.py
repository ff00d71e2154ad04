"""Text taken of bytes, by a child process as the worker has it."""

import os
from pathlib import Path

from fpdf import FPDF

from dms_worker.extract.limits import Limits
from dms_worker.extract.runner import ExtractedText, extract_text

PDF = "application/pdf"
LIMITS = Limits(wall_seconds=20.0)


async def extract(folder: Path, data: bytes, mime_type: str, limits: Limits = LIMITS) -> ExtractedText:
    """What a file of these bytes gives; it lies in the folder as `upload`."""
    file = folder / "upload"
    file.write_bytes(data)
    return await extract_text(file, mime_type, limits)


def letter(*pages: str) -> bytes:
    """A PDF with these texts, a page each."""
    document = FPDF()
    document.set_font("Helvetica", size=12)
    for page in pages:
        document.add_page()
        document.write(text=page)
    return bytes(document.output())


def running_children() -> list[int]:
    """Our extracting children, and any child that has ended and waits to be reaped."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            state, parent, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid() and (state == "Z" or b"dms_worker.extract.child" in command):
            found.append(int(process.name))
    return found
