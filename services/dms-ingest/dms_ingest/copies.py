"""Copies: a revision that refers to the object of another one. No byte of the file is read or written.

The copy has the object's key wrapped for itself, and the object goes with the last revision that refers to it.
"""

from uuid import UUID

import asyncpg

from dms_ingest import processing
from dms_ingest.downloads import revision_dek
from dms_ingest.revisions import NewRevision, Revision, RevisionNotFound, SealedRevision, insert_current
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import wrap_dek
from nexarch.db import Connection
from nexarch.errors import Conflict


class AlreadyCurrent(Conflict):
    """The revision that is to be restored is the file that the document is already."""

    code = "already-current"
    title = "The document is this file already"


async def prepare_copy(
    core: CoreClient,
    source: SealedRevision,
    *,
    tenant: str,
    tenant_id: UUID,
    document_id: UUID,
    revision_id: UUID,
    user_id: UUID,
) -> NewRevision:
    """What `add_copy` needs to make `source` the next revision of `document_id`, which may be another document.

    Asks core-api for the KEK, so hold no connection meanwhile. Raises KeyMissing, SealBroken, and what `CoreClient.kek`
    raises.
    """
    dek = await revision_dek(core, tenant, tenant_id, source)
    kek = await core.kek(tenant)
    return NewRevision(
        id=revision_id,
        document_id=document_id,
        checksum_sha256=source.checksum_sha256,
        size_bytes=source.size_bytes,
        mime_type=source.mime_type,
        wrapped_dek=wrap_dek(kek.kek, dek, tenant_id=tenant_id, revision_id=revision_id, kek_version=kek.kek_version),
        kek_version=kek.kek_version,
        created_by=user_id,
        storage_key=source.storage_key,
    )


async def restore_revision(conn: Connection, copy: NewRevision, source: SealedRevision) -> Revision:
    """Make an older revision the newest one again, by `add_copy`; AlreadyCurrent for the file that is current.

    Of two who ask at once the second is refused.
    """
    await _lock_document(conn, copy.document_id)
    if await _current_object(conn, copy.document_id) == source.storage_key:
        raise AlreadyCurrent("The document is this file already.")
    return await add_copy(conn, copy, source)


async def add_copy(conn: Connection, copy: NewRevision, source: SealedRevision) -> Revision:
    """Make a copy the current revision of its document, with the text of its source; no usage, as no byte is stored.

    Call it in a transaction, arm before it and ring after the commit: where the source has no text yet, the copy has
    a job. Raises DocumentNotFound, and RevisionNotFound if the source was removed for good meanwhile.
    """
    try:
        revision = await insert_current(conn, copy)
    except asyncpg.ForeignKeyViolationError as error:
        if error.constraint_name != "file_revisions_object_fkey":
            raise
        raise RevisionNotFound("The file was removed for good meanwhile.") from error
    if await _take_state(conn, copy.id, source.id):
        await _take_text(conn, copy.id, source.id)
    else:
        await processing.enqueue_extraction(conn, copy.document_id, copy.id)
    return revision


async def _lock_document(conn: Connection, document_id: UUID) -> None:
    """Let nobody else change which file the document is. Alone: only the next statement sees what was waited for."""
    await conn.execute("SELECT FROM documents WHERE id = $1 FOR NO KEY UPDATE", document_id)


async def _current_object(conn: Connection, document_id: UUID) -> str | None:
    """The key of the file that the document is; None if it has none, or is not there any more."""
    sql = """
        SELECT r.storage_key
        FROM documents AS d JOIN file_revisions AS r ON r.id = d.current_revision_id
        WHERE d.id = $1 AND d.deleted_at IS NULL
    """
    storage_key: str | None = await conn.fetchval(sql, document_id)
    return storage_key


async def _take_state(conn: Connection, copy_id: UUID, source_id: UUID) -> bool:
    """Mark a copy as processed; False if its source is not."""
    sql = """
        UPDATE file_revisions AS copy
        SET processing_state = 'processed', page_count = source.page_count, processed_at = now()
        FROM file_revisions AS source
        WHERE copy.id = $1 AND source.id = $2 AND source.processing_state = 'processed'
        RETURNING true
    """
    return await conn.fetchval(sql, copy_id, source_id) is not None


async def _take_text(conn: Connection, copy_id: UUID, source_id: UUID) -> None:
    """Text and vectors as they are: nothing is parsed again."""
    sql = """
        INSERT INTO document_texts (revision_id, part, content, search)
        SELECT $1, part, content, search FROM document_texts WHERE revision_id = $2
    """
    await conn.execute(sql, copy_id, source_id)
