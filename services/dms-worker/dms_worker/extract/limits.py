"""How much one extraction may take and give."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The first three end the extraction with an error; `pages` and `characters` only cut the text short."""

    wall_seconds: float = 60.0
    cpu_seconds: int = 30
    memory_bytes: int = 512 * MIB  # resident, of the child process
    unpacked_bytes: int = 256 * MIB  # XML inside one DOCX
    pages: int = 10_000
    characters: int = 10_000_000  # of cleaned text, all pages together
