"""Checks of a tenant's object store: which are under way, and what they have found.

dms-ingest takes the order and shows the result, dms-worker does the work. A check is a row that knows where it is, so
that another worker goes on with it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from nexarch.db import Connection, fetch_one, fetch_optional
from nexarch.errors import NotFound


class StoreCheckNotFound(NotFound):
    """There is no such check of this tenant's store, or it was a long time ago."""

    code = "store-check-not-found"


class Scope(StrEnum):
    """Of how many objects the bytes are read; that there is an object for each row, and a row for each, always."""

    SAMPLE = "sample"  # some: those that were not read for the longest time, and those that were damaged
    ALL = "all"


class Finding(StrEnum):
    """What can be wrong with one object."""

    ORPHAN = "orphan"  # no row refers to it; it was removed
    MISSING = "missing"  # a row refers to it, and it is not there
    SIZE = "size"  # it is longer or shorter than what was stored
    CONTENT = "content"  # it does not open, or to other bytes than the file's
    KEY = "key"  # the key in its row does not open, or core-api has none of that version: it was not read


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """One row of `store_checks`."""

    id: UUID
    scope: str
    phase: str  # objects, contents or finished
    position: str  # the storage key that was last looked at in this phase
    created_at: datetime
    finished_at: datetime | None
    objects: int  # in the store's listing
    contents: int  # objects whose turn to be read came, also where they could not be
    bytes: int  # of plaintext, in them
    orphans_removed: int
    orphans_young: int  # an upload may be about to refer to them
    leftovers: int  # of puts that never ended; removed
    missing: int
    damaged: int
    unreadable_keys: int


async def open_check(conn: Connection, scope: Scope) -> StoreCheck:
    """The check of this scope that is not finished, else a new one."""
    sql = """
        INSERT INTO store_checks (scope)
        VALUES ($1)
        ON CONFLICT (scope) WHERE finished_at IS NULL DO UPDATE SET scope = excluded.scope
        RETURNING id, scope, phase, position, created_at, finished_at, objects, contents, bytes, orphans_removed,
            orphans_young, leftovers, missing, damaged, unreadable_keys
    """
    return await fetch_one(conn, StoreCheck, sql, scope)


async def get_check(conn: Connection, check_id: UUID) -> StoreCheck:
    """One check; StoreCheckNotFound."""
    sql = """
        SELECT id, scope, phase, position, created_at, finished_at, objects, contents, bytes, orphans_removed,
            orphans_young, leftovers, missing, damaged, unreadable_keys
        FROM store_checks
        WHERE id = $1
    """
    check = await fetch_optional(conn, StoreCheck, sql, check_id)
    if check is None:
        raise StoreCheckNotFound("There is no such check of the object store.")
    return check
