"""Removing documents for good: first the rows, with the usage, in one transaction; then the objects.

The transaction that removes the last reference to an object dooms it: its key waits in `doomed_objects` until the store
has given it up. A crash between the two leaves work to be done again, never a row without its object nor an object that
nobody knows of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from nexarch import audit, usage
from nexarch.audit import Action
from nexarch.db import Connection, fetch_all
from nexarch.errors import NexarchError
from nexarch.storage import ObjectNotFound, Storage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Released:
    storage_key: str
    size_bytes: int


async def purge_documents(conn: Connection, document_ids: Sequence[UUID], *, user_id: UUID | None = None) -> list[str]:
    """Remove documents with all their revisions and texts; return the keys of the objects to be deleted next.

    Call it in a transaction that has locked them FOR UPDATE. An object that a revision of another document refers to
    stays, and so does its usage. `user_id` is who says so; None: the platform, because their time is over.
    """
    keys = await _lock_objects(conn, document_ids)
    await _delete_revisions(conn, document_ids)
    released = await _release(conn, keys)
    await _delete_rows(conn, document_ids)
    await audit.record_each(conn, Action.DOCUMENT_PURGED, document_ids, user_id=user_id)
    if released:
        await usage.record_storage(conn, -sum(stored.size_bytes for stored in released))
    return [stored.storage_key for stored in released]


async def delete_objects(storage: Storage, tenant: str, keys: Sequence[str]) -> list[str]:
    """Delete doomed objects after the commit and return those that are gone, for `forget_doomed`.

    One that is gone already is gone. One that the store does not give up is logged and stays doomed, to be tried again
    by the periodic purge: the document itself is gone, whatever we answer.
    """
    gone = []
    for key in keys:
        try:
            await storage.delete(tenant, key)
        except ObjectNotFound:
            pass
        except (OSError, NexarchError):
            log.exception("object left for the next purge", tenant=tenant, object=key)
            continue
        gone.append(key)
    return gone


async def forget_doomed(conn: Connection, keys: Sequence[str]) -> None:
    """The store has given these up."""
    await conn.execute("DELETE FROM doomed_objects WHERE storage_key = ANY($1)", keys)


async def doomed_objects(conn: Connection, *, after: str, limit: int) -> list[str]:
    """The keys of objects that are still to be deleted from the store, in order, from the one behind `after` ("")."""
    sql = "SELECT storage_key FROM doomed_objects WHERE storage_key > $1 ORDER BY storage_key LIMIT $2"
    return [row["storage_key"] for row in await conn.fetch(sql, after, limit)]


async def _lock_objects(conn: Connection, document_ids: Sequence[UUID]) -> list[str]:
    """Who else is giving up or taking up a reference to one of these waits, or is waited for.

    Otherwise two who remove the last two references at once would each see the other's.
    """
    sql = """
        SELECT storage_key
        FROM stored_objects
        WHERE storage_key IN (SELECT r.storage_key FROM file_revisions AS r WHERE r.document_id = ANY($1))
        ORDER BY storage_key
        FOR UPDATE
    """
    return [row["storage_key"] for row in await conn.fetch(sql, document_ids)]


async def _delete_revisions(conn: Connection, document_ids: Sequence[UUID]) -> None:
    """Texts and finished upload sessions go with them (ON DELETE CASCADE)."""
    await conn.execute("DELETE FROM file_revisions WHERE document_id = ANY($1)", document_ids)


async def _release(conn: Connection, keys: Sequence[str]) -> list[_Released]:
    """Doom the objects that nothing refers to any more."""
    sql = """
        WITH released AS (
            DELETE FROM stored_objects AS o
            WHERE o.storage_key = ANY($1)
                AND NOT EXISTS (SELECT FROM file_revisions AS r WHERE r.storage_key = o.storage_key)
            RETURNING o.storage_key, o.size_bytes
        ), doomed AS (
            INSERT INTO doomed_objects (storage_key) SELECT storage_key FROM released
        )
        SELECT storage_key, size_bytes FROM released
    """
    return await fetch_all(conn, _Released, sql, keys)


async def _delete_rows(conn: Connection, document_ids: Sequence[UUID]) -> None:
    """Tags, metadata and open upload sessions go with them (ON DELETE CASCADE)."""
    await conn.execute("DELETE FROM documents WHERE id = ANY($1)", document_ids)
