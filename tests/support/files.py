"""Files to upload, files that grow, and files that are open."""

import hashlib
import random
from pathlib import Path

_PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"


def write_pdf(path: Path, size: int, seed: int = 1) -> str:
    """Write a file that begins like a PDF and goes on at random; returns its SHA-256 in hex."""
    content = _PDF + random.Random(seed).randbytes(size - len(_PDF))
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def size_of(file: Path) -> int:
    """In bytes; -1 if there is no such file."""
    return file.stat().st_size if file.exists() else -1


async def size_reaches(file: Path, size: int) -> bool:
    """Whether a file has so many bytes; for `eventually`."""
    return size_of(file) >= size


def open_files() -> list[str]:
    """The paths of the files that this process has open."""
    return sorted(str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists())
