"""Removing a document of the trash for good because a person says so; `nexarch.purge` does it."""

from typing import cast
from uuid import UUID

from dms_ingest.documents import DocumentNotFound
from nexarch.db import Connection
from nexarch.errors import Conflict
from nexarch.purge import purge_documents


class NotInTrash(Conflict):
    """Only a document that was deleted before can be removed for good or restored."""

    code = "not-in-trash"
    title = "The document is not in the trash"


async def purge_document(conn: Connection, document_id: UUID, *, user_id: UUID | None = None) -> list[str]:
    """Remove a document of the trash with all that belongs to it; return the keys of its objects, to be deleted next.

    Call it in a transaction. Raises DocumentNotFound and NotInTrash.
    """
    if not await _lock_deleted(conn, document_id):
        raise NotInTrash("Delete the document first; only what is in the trash is removed for good.")
    return await purge_documents(conn, [document_id], user_id=user_id)


async def _lock_deleted(conn: Connection, document_id: UUID) -> bool:
    """Lock the document; True if it is in the trash. DocumentNotFound."""
    sql = "SELECT deleted_at IS NOT NULL FROM documents WHERE id = $1 FOR UPDATE"
    deleted = await conn.fetchval(sql, document_id)
    if deleted is None:
        raise DocumentNotFound("There is no such document.")
    return cast("bool", deleted)
