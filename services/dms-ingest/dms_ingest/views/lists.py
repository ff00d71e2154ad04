"""Pages of a list: one more row than asked for is fetched, to know whether another page follows."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from nexarch.pages import BadCursor, decode_cursor, encode_cursor

T = TypeVar("T")


def page_of(rows: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]]) -> tuple[Sequence[T], str | None]:
    """The rows of this page and the cursor of the next; `rows` are up to `limit` + 1, `key` is their sort key."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*key(rows[limit - 1]))


def id_cursor(cursor: str | None) -> UUID | None:
    """The id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 1)
    return None if key is None else _uuid(key[0])


def name_cursor(cursor: str | None) -> tuple[str, UUID] | None:
    """The name and the id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 2)
    return None if key is None else (key[0], _uuid(key[1]))


def rank_cursor(cursor: str | None) -> tuple[float, UUID] | None:
    """The rank and the id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 2)
    return None if key is None else (_float(key[0]), _uuid(key[1]))


def number_cursor(cursor: str | None) -> int | None:
    """The number that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 1)
    if key is None:
        return None
    if not (key[0].isascii() and key[0].isdigit() and len(key[0]) < 10):
        raise BadCursor("Take `next_cursor` of the page before as it is.")
    return int(key[0])


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error
