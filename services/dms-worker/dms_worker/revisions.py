"""The revisions of documents as the worker needs them: what opens one, and what becomes of its processing."""

from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection, fetch_optional

_STORE_TIMEOUT_S = 60.0  # as long as the tenant role may take for one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRevision:
    """Some columns of `file_revisions`."""

    storage_key: str
    mime_type: str
    size_bytes: int
    wrapped_dek: bytes
    kek_version: int


async def begin_processing(conn: Connection, document_id: UUID, revision_id: UUID) -> StoredRevision | None:
    """Show that a worker has begun with a revision; None if it is not there any more."""
    sql = """
        UPDATE file_revisions
        SET processing_state = 'processing', processing_error_code = NULL, processing_error_detail = NULL
        WHERE id = $1 AND document_id = $2
        RETURNING storage_key, mime_type, size_bytes, wrapped_dek, kek_version
    """
    return await fetch_optional(conn, StoredRevision, sql, revision_id, document_id)


async def store_text(conn: Connection, revision_id: UUID, text: str) -> None:
    """Replace the searchable text of a revision; a text of ten million characters takes some ten seconds."""
    await conn.execute("SELECT store_text($1, $2)", revision_id, text, timeout=_STORE_TIMEOUT_S)


async def mark_queued(conn: Connection, revision_id: UUID) -> None:
    """Show that a revision waits for another attempt."""
    sql = """
        UPDATE file_revisions
        SET processing_state = 'queued'
        WHERE id = $1 AND processing_state = 'processing'
    """
    await conn.execute(sql, revision_id)


async def mark_processed(conn: Connection, revision_id: UUID, page_count: int | None) -> None:
    """Show that a revision is done."""
    sql = """
        UPDATE file_revisions
        SET processing_state = 'processed', page_count = $2, processed_at = now(),
            processing_error_code = NULL, processing_error_detail = NULL
        WHERE id = $1
    """
    await conn.execute(sql, revision_id, page_count)


async def mark_failed(conn: Connection, revision_id: UUID, code: str, detail: str) -> None:
    """Show that a revision could not be processed, and why."""
    sql = """
        UPDATE file_revisions
        SET processing_state = 'failed', processed_at = now(),
            processing_error_code = $2, processing_error_detail = $3
        WHERE id = $1
    """
    await conn.execute(sql, revision_id, code, detail)
