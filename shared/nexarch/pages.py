"""Keyset pages: `limit` and an opaque `cursor` in, `items` and `next_cursor` out.

A cursor holds the sort key of the last item, so a page costs the same however far down it is, and rows that come
or go meanwhile neither hide nor repeat others.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from nexarch.errors import Invalid

MAX_LIMIT = 200

T = TypeVar("T")


class BadCursor(Invalid):
    """The cursor was not made by this list."""

    code = "bad-cursor"
    title = "The cursor is not ours"


class PageQuery(BaseModel):
    """The query of every list."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 50
    cursor: Annotated[str | None, Field(max_length=2000)] = None


def page_of(rows: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]]) -> tuple[Sequence[T], str | None]:
    """The rows of this page and the cursor of the next, None after the last; `key` is a row's sort key.

    `rows` are up to `limit` + 1: the one more than asked for tells whether another page follows.
    """
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*key(rows[limit - 1]))


def encode_cursor(*key: str) -> str:
    """Make the cursor that stands for the last item's sort key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, parts: int) -> tuple[str, ...] | None:
    """Read a cursor of `parts` values; None where none was sent, `BadCursor` for anything else."""
    if cursor is None:
        return None
    try:
        key = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error
    is_ours = isinstance(key, list) and len(key) == parts
    if not is_ours or not all(isinstance(part, str) and "\0" not in part for part in key):
        raise BadCursor("Take `next_cursor` of the page before as it is.")
    return tuple(key)


def decode_id(cursor: str | None) -> UUID | None:
    """Read a cursor that holds one id, for lists that are sorted by it."""
    key = decode_cursor(cursor, 1)
    try:
        return None if key is None else UUID(key[0])
    except ValueError as error:
        raise BadCursor("Take `next_cursor` of the page before as it is.") from error
