"""What the cursors of our lists hold; those of lists that are sorted by id alone are `nexarch.pages.decode_id`."""

from datetime import UTC, datetime
from uuid import UUID

from nexarch.pages import BadCursor, decode_cursor


def name_cursor(cursor: str | None) -> tuple[str, UUID] | None:
    """The name and the id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 2)
    return None if key is None else (key[0], _uuid(key[1]))


def rank_cursor(cursor: str | None) -> tuple[float, UUID] | None:
    """The rank and the id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 2)
    return None if key is None else (_float(key[0]), _uuid(key[1]))


def time_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    """The time and the id that a cursor holds; BadCursor."""
    key = decode_cursor(cursor, 2)
    return None if key is None else (_time(key[0]), _uuid(key[1]))


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


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        in_utc = time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error
    if time.tzinfo is None:
        raise BadCursor("Take `next_cursor` of the page before as it is.")
    return in_utc


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error
