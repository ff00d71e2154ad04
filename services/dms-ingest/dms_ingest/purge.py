"""Removing a document for good: first the rows, with the usage, in one transaction; then the objects.

A crash between the two leaves objects without a row, which the scheduled check of the store finds; never a row
without its object.
"""

from dataclasses import dataclass
from typing import cast
from uuid import UUID

import structlog

from dms_ingest import usage
from dms_ingest.documents import DocumentNotFound
from nexarch.db import Connection, fetch_all
from nexarch.errors import Conflict
from nexarch.storage import ObjectNotFound, Storage

log = structlog.get_logger(__name__)


class NotInTrash(Conflict):
    """Only a document that was deleted before can be removed for good."""

    code = "not-in-trash"
    title = "The document is not in the trash"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What is left of a revision once its row is gone."""

    storage_key: str
    size_bytes: int


async def purge_document(conn: Connection, document_id: UUID) -> list[StoredObject]:
    """Remove a document of the trash with all its revisions and texts; return its objects, to be deleted next.

    Call it in a transaction. Raises DocumentNotFound and NotInTrash.
    """
    if not await _lock_deleted(conn, document_id):
        raise NotInTrash("Delete the document first; only what is in the trash is removed for good.")
    objects = await _delete_revisions(conn, document_id)
    await _delete_row(conn, document_id)
    await usage.record_storage(conn, -sum(stored.size_bytes for stored in objects))
    return objects


async def delete_objects(storage: Storage, tenant: str, objects: list[StoredObject]) -> None:
    """Delete objects whose rows are gone; call it after the commit.

    One that is gone already is no matter. One that the store does not give up is logged and left to the scheduled
    check: the document itself is gone, whatever we answer.
    """
    for stored in objects:
        try:
            await storage.delete(tenant, stored.storage_key)
        except ObjectNotFound:
            continue
        except OSError:
            log.exception("object left behind", tenant=tenant, object=stored.storage_key)


async def _lock_deleted(conn: Connection, document_id: UUID) -> bool:
    """Lock the document; True if it is in the trash. DocumentNotFound."""
    sql = "SELECT deleted_at IS NOT NULL FROM documents WHERE id = $1 FOR UPDATE"
    deleted = await conn.fetchval(sql, document_id)
    if deleted is None:
        raise DocumentNotFound("There is no such document.")
    return cast("bool", deleted)


async def _delete_revisions(conn: Connection, document_id: UUID) -> list[StoredObject]:
    """Texts and finished upload sessions go with them (ON DELETE CASCADE)."""
    sql = "DELETE FROM file_revisions WHERE document_id = $1 RETURNING storage_key, size_bytes"
    return await fetch_all(conn, StoredObject, sql, document_id)


async def _delete_row(conn: Connection, document_id: UUID) -> None:
    """Tags, metadata and open upload sessions go with it (ON DELETE CASCADE)."""
    await conn.execute("DELETE FROM documents WHERE id = $1", document_id)
