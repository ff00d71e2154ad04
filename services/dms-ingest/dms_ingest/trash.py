"""The trash: deleted documents, until they are restored or removed for good: by `purge`, or after some days."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dms_ingest.documents import DocumentNotFound
from dms_ingest.folders import FolderNotFound, hold_folder
from dms_ingest.purge import NotInTrash
from nexarch.db import Connection, fetch_all, fetch_optional


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedDocument:
    """One row of `documents` that is in the trash, with the size of the file that it was."""

    id: UUID
    folder_id: UUID | None  # where it lay
    name: str
    size_bytes: int | None  # None: it had no file
    deleted_at: datetime
    purge_at: datetime | None  # from then on it may be removed for good; None: only when an admin says so
    days_left: int | None  # until then, begun days counted whole; 0: it is due


async def list_trash(conn: Connection, *, before: tuple[datetime, UUID] | None, limit: int) -> list[TrashedDocument]:
    """What is in the trash, last deleted first, from the one behind `before`."""
    sql = """
        SELECT d.id, d.folder_id, d.name, r.size_bytes, d.deleted_at, purge_at,
            CASE WHEN purge_at > now() THEN ceil(extract(epoch FROM purge_at - now()) / 86400)::integer
                 WHEN purge_at IS NOT NULL THEN 0 END AS days_left
        FROM documents AS d
        LEFT JOIN file_revisions AS r ON r.id = d.current_revision_id
        CROSS JOIN (SELECT nullif(trash_days, 0) AS kept_days FROM tenant_settings) AS settings
        CROSS JOIN LATERAL (SELECT d.deleted_at + make_interval(days => kept_days) AS purge_at) AS due
        WHERE d.deleted_at IS NOT NULL AND ($1::timestamptz IS NULL OR (d.deleted_at, d.id) < ($1, $2::uuid))
        ORDER BY d.deleted_at DESC, d.id DESC
        LIMIT $3
    """
    deleted_at, document_id = before if before is not None else (None, None)
    return await fetch_all(conn, TrashedDocument, sql, deleted_at, document_id, limit)


async def restore_document(conn: Connection, document_id: UUID) -> bool:
    """Take a document out of the trash, back into its folder; call it in a transaction.

    False: its folder was deleted meanwhile, and the document is at the top level now. Who purges it at the same moment
    comes before or after: then it is gone, or not in the trash any more. Raises DocumentNotFound and NotInTrash.
    """
    place = await _lock(conn, document_id)
    if not place.deleted:
        raise NotInTrash("The document is not in the trash.")
    try:
        await hold_folder(conn, place.folder_id)
    except FolderNotFound:
        await _put_back(conn, document_id, None)
        return False
    await _put_back(conn, document_id, place.folder_id)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    folder_id: UUID | None
    deleted: bool


async def _lock(conn: Connection, document_id: UUID) -> _Place:
    sql = "SELECT folder_id, deleted_at IS NOT NULL AS deleted FROM documents WHERE id = $1 FOR NO KEY UPDATE"
    place = await fetch_optional(conn, _Place, sql, document_id)
    if place is None:
        raise DocumentNotFound("There is no such document.")
    return place


async def _put_back(conn: Connection, document_id: UUID, folder_id: UUID | None) -> None:
    sql = """
        UPDATE documents
        SET deleted_at = NULL, folder_id = $2, version = version + 1, updated_at = now()
        WHERE id = $1
    """
    await conn.execute(sql, document_id, folder_id)
