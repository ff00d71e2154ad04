"""The files that the clients upload: the same ones for the same seed, so nobody has to keep them."""

import math
import random
from dataclasses import dataclass
from typing import Literal

SMALLEST = 1 << 10
_LONGEST_TEXT = 1 << 20  # bytes; a longer one keeps a worker busy for longer than an outage lasts
_WORDS = (
    *("Anlage", "Befund", "Deich", "Eiche", "Fähre", "Garten", "Hafen", "Insel"),
    *("Kanal", "Leuchtturm", "Messung", "Norden", "Pegel", "Ufer", "Wartung"),
)

Face = Literal["json", "tus"]


@dataclass(frozen=True, slots=True)
class File:
    """One file, and which face of dms-ingest takes it."""

    seed: str
    number: int
    size: int  # bytes
    face: Face

    @property
    def name(self) -> str:
        """Its name, which no other file has."""
        return f"{self.number:03d}-{self.seed}.{'txt' if self.is_text else 'bin'}"

    @property
    def is_text(self) -> bool:
        """Whether a worker can read it: two thirds of those that are not too long."""
        return self.size <= _LONGEST_TEXT and self.number % 3 != 0

    @property
    def mime_type(self) -> str:
        """What it is announced as."""
        return "text/plain" if self.is_text else "application/octet-stream"

    def content(self) -> bytes:
        """Its bytes, made anew."""
        source = random.Random(f"{self.seed}/{self.number}")
        if not self.is_text:
            return source.randbytes(self.size)
        words = source.choices(_WORDS, k=self.size // 4)  # shorter than the shortest word with its space
        text = f"{self.name} {' '.join(words)}".encode()[: self.size].decode(errors="ignore")  # a letter may be cut
        return text.encode().ljust(self.size)


def make_files(seed: str, count: int, largest: int) -> list[File]:
    """So many files from 1 KiB to `largest`, as many of each order of magnitude; every other one goes through tus."""
    source = random.Random(seed)
    sizes = [round(math.exp(source.uniform(math.log(SMALLEST), math.log(largest)))) for _ in range(count)]
    sizes[:2] = [SMALLEST, largest]
    source.shuffle(sizes)
    return [File(seed, number, size, "tus" if number % 2 else "json") for number, size in enumerate(sizes)]
