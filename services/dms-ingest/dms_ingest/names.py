"""What people call things. The rules themselves stand in the schema (`is_name`)."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from nexarch.errors import Invalid


class NameRefused(Invalid):
    """Not a name: empty, longer than 255 characters, `.` or `..`, or with a slash or a control character."""

    code = "name-refused"
    title = "This cannot be a name"


def composed(name: str) -> str:
    """The name in NFC, the form in which names are stored: "Müller" of macOS and of Windows are one."""
    return unicodedata.normalize("NFC", name)


@contextmanager
def name_rules() -> Iterator[None]:
    """Translate Postgres' refusal of a name within the block to `NameRefused`."""
    try:
        yield
    except asyncpg.CheckViolationError as error:
        if not (error.constraint_name or "").endswith("_name_form"):
            raise
        raise NameRefused(
            "A name has 1 to 255 characters, no slash and no control character, and is not '.' or '..'."
        ) from error
