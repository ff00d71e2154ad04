"""Documents: a name in a folder, with the file that is its current revision.

What happens to the file after it is stored is told by the processing state: queued, processing, processed or failed;
`damage` is what the check of the object store has found wrong with it, see `dms_ingest.damage`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dms_ingest.folders import hold_folder
from dms_ingest.names import composed, name_rules
from nexarch.db import Connection, fetch_all, fetch_optional
from nexarch.errors import NotFound, PreconditionFailed


class DocumentNotFound(NotFound):
    """There is no such document in this tenant, or it is in the trash."""

    code = "document-not-found"


class VersionChanged(PreconditionFailed):
    """Somebody else changed the document since the version that `If-Match` names."""

    code = "version-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One row of `documents` that is not deleted, with its current revision (all None: it has no file yet)."""

    id: UUID
    folder_id: UUID | None
    name: str
    version: int
    created_by: UUID | None
    created_at: datetime
    updated_at: datetime
    tags: list[str]
    revision_id: UUID | None
    revision_number: int | None
    revision_created_at: datetime | None
    revision_created_by: UUID | None
    checksum_sha256: bytes | None
    size_bytes: int | None
    mime_type: str | None
    processing_state: str | None
    processing_error_code: str | None
    processing_error_detail: str | None
    page_count: int | None
    damage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which documents a list shows: those that all of these fit; None and False do not restrict."""

    in_folder: bool = False
    folder_id: UUID | None = None  # with in_folder; None is the top level
    tag: str | None = None  # the tag's name, in any case
    text: str | None = None  # somewhere in the name, in any case
    state: str | None = None  # queued, processing, processed, failed or damaged


async def create_document(
    conn: Connection, *, document_id: UUID, name: str, folder_id: UUID | None, user_id: UUID
) -> None:
    """Add a document without a file; call it in the transaction that adds its first revision.

    Raises FolderNotFound and NameRefused.
    """
    sql = "INSERT INTO documents (id, name, folder_id, created_by) VALUES ($1, $2, $3, $4)"
    await hold_folder(conn, folder_id)
    with name_rules():
        await conn.execute(sql, document_id, composed(name), folder_id, user_id)


async def get_document(conn: Connection, document_id: UUID) -> Document:
    """One document; DocumentNotFound, also if it is in the trash."""
    sql = """
        SELECT d.id, d.folder_id, d.name, d.version, d.created_by, d.created_at, d.updated_at,
            ARRAY(SELECT t.name FROM document_tags AS dt JOIN tags AS t ON t.id = dt.tag_id
                  WHERE dt.document_id = d.id ORDER BY lower(t.name)) AS tags,
            r.id AS revision_id, r.number AS revision_number, r.created_at AS revision_created_at,
            r.created_by AS revision_created_by, r.checksum_sha256, r.size_bytes, r.mime_type, r.processing_state,
            r.processing_error_code, r.processing_error_detail, r.page_count, o.damage
        FROM documents AS d LEFT JOIN file_revisions AS r ON r.id = d.current_revision_id
            LEFT JOIN stored_objects AS o ON o.storage_key = r.storage_key
        WHERE d.id = $1 AND d.deleted_at IS NULL
    """
    document = await fetch_optional(conn, Document, sql, document_id)
    if document is None:
        raise DocumentNotFound("There is no such document.")
    return document


async def list_documents(conn: Connection, which: Filter, *, before: UUID | None, limit: int) -> list[Document]:
    """Documents, newest first (ids are UUIDv7), from the one below `before`."""
    sql = r"""
        SELECT d.id, d.folder_id, d.name, d.version, d.created_by, d.created_at, d.updated_at,
            ARRAY(SELECT t.name FROM document_tags AS dt JOIN tags AS t ON t.id = dt.tag_id
                  WHERE dt.document_id = d.id ORDER BY lower(t.name)) AS tags,
            r.id AS revision_id, r.number AS revision_number, r.created_at AS revision_created_at,
            r.created_by AS revision_created_by, r.checksum_sha256, r.size_bytes, r.mime_type, r.processing_state,
            r.processing_error_code, r.processing_error_detail, r.page_count, o.damage
        FROM documents AS d LEFT JOIN file_revisions AS r ON r.id = d.current_revision_id
            LEFT JOIN stored_objects AS o ON o.storage_key = r.storage_key
        WHERE d.deleted_at IS NULL
            AND ($1::uuid IS NULL OR d.id < $1)
            AND (NOT $2 OR d.folder_id IS NOT DISTINCT FROM $3)
            AND ($4::text IS NULL OR EXISTS (
                SELECT FROM document_tags AS dt JOIN tags AS t ON t.id = dt.tag_id
                WHERE dt.document_id = d.id AND lower(t.name) = lower($4)))
            AND ($5::text IS NULL OR d.name ILIKE '%' || regexp_replace($5, '([\\%_])', '\\\1', 'g') || '%')
            AND ($6::text IS NULL
                OR $6 = CASE WHEN o.damage IS NULL THEN r.processing_state ELSE 'damaged' END)
        ORDER BY d.id DESC
        LIMIT $7
    """
    tag = None if which.tag is None else composed(which.tag)
    text = None if which.text is None else composed(which.text)
    return await fetch_all(conn, Document, sql, before, which.in_folder, which.folder_id, tag, text, which.state, limit)


async def change_document(
    conn: Connection,
    document_id: UUID,
    *,
    if_versions: Sequence[int] | None,
    name: str | None,
    move: bool,
    folder_id: UUID | None,
) -> None:
    """Rename a document (`name`), move it into `folder_id` (if `move`), or both; call it in a transaction.

    Raises DocumentNotFound, FolderNotFound, NameRefused, and VersionChanged if it is at none of `if_versions`.
    """
    sql = """
        UPDATE documents
        SET name = coalesce($3, name), folder_id = CASE WHEN $4 THEN $5 ELSE folder_id END, version = version + 1,
            updated_at = now()
        WHERE id = $1 AND deleted_at IS NULL AND ($2::integer[] IS NULL OR version = ANY($2))
        RETURNING true
    """
    if move:
        await hold_folder(conn, folder_id)
    with name_rules():
        new_name = None if name is None else composed(name)
        changed = await conn.fetchval(sql, document_id, if_versions, new_name, move, folder_id)
    if changed is None:
        await _refuse(conn, document_id)


async def delete_document(conn: Connection, document_id: UUID, *, if_versions: Sequence[int] | None) -> None:
    """Put a document into the trash. Raises DocumentNotFound, and VersionChanged if it is at none of `if_versions`."""
    sql = """
        UPDATE documents
        SET deleted_at = now(), version = version + 1, updated_at = now()
        WHERE id = $1 AND deleted_at IS NULL AND ($2::integer[] IS NULL OR version = ANY($2))
        RETURNING true
    """
    if await conn.fetchval(sql, document_id, if_versions) is None:
        await _refuse(conn, document_id)


async def hold_document(conn: Connection, document_id: UUID) -> None:
    """Keep a document from being removed until the transaction ends; DocumentNotFound, also if it is in the trash."""
    sql = "SELECT true FROM documents WHERE id = $1 AND deleted_at IS NULL FOR KEY SHARE"
    if await conn.fetchval(sql, document_id) is None:
        raise DocumentNotFound("There is no such document.")


async def revoke_links(conn: Connection, document_id: UUID) -> None:
    """End all signed links to a document; DocumentNotFound, also if it is in the trash."""
    sql = "UPDATE documents SET link_epoch = link_epoch + 1 WHERE id = $1 AND deleted_at IS NULL RETURNING true"
    if await conn.fetchval(sql, document_id) is None:
        raise DocumentNotFound("There is no such document.")


async def _refuse(conn: Connection, document_id: UUID) -> None:
    """Tell why a change found no row."""
    document = await get_document(conn, document_id)
    raise VersionChanged(
        f"The document is at version {document.version} by now; read it again.", version=document.version
    )
