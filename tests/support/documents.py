"""Documents for tests of dms-ingest and what stands on it, made by the functions that the product uses."""

import hashlib
import os
from uuid import UUID

from dms_ingest.documents import create_document
from dms_ingest.revisions import NewRevision, Revision, add_revision
from nexarch.db import Connection


async def new_id(conn: Connection) -> UUID:
    """A UUIDv7 of the server's clock."""
    value: UUID = await conn.fetchval("SELECT uuidv7()")
    return value


async def add_document(
    conn: Connection,
    user_id: UUID,
    *,
    name: str = "Bericht.pdf",
    folder_id: UUID | None = None,
    text: str | None = None,
) -> UUID:
    """A document with one revision whose object does not exist; processed with `text` where that is given."""
    document_id = await new_id(conn)
    async with conn.transaction():
        await create_document(conn, document_id=document_id, name=name, folder_id=folder_id, user_id=user_id)
        revision = await add_revision(conn, a_revision(await new_id(conn), document_id, user_id))
        if text is not None:
            await conn.fetchval("SELECT store_text($1, $2)", revision.id, text)
            await set_state(conn, revision.id, "processed")
    return document_id


async def next_revision(conn: Connection, document_id: UUID, user_id: UUID, *, content: bytes = b"more") -> Revision:
    """One more revision whose object does not exist."""
    async with conn.transaction():
        return await add_revision(conn, a_revision(await new_id(conn), document_id, user_id, content=content))


def a_revision(revision_id: UUID, document_id: UUID, user_id: UUID, *, content: bytes = b"content") -> NewRevision:
    """A revision as an upload hands it over, with a key that opens nothing."""
    return NewRevision(
        id=revision_id,
        document_id=document_id,
        checksum_sha256=hashlib.sha256(content).digest(),
        size_bytes=len(content),
        mime_type="application/pdf",
        wrapped_dek=os.urandom(60),
        kek_version=1,
        created_by=user_id,
    )


async def set_state(conn: Connection, revision_id: UUID, state: str, *, code: str | None = None) -> None:
    """Put a revision into a processing state, as the worker does."""
    sql = """
        UPDATE file_revisions
        SET processing_state = $2, processing_error_code = $3, processing_error_detail = $4
        WHERE id = $1
    """
    await conn.execute(sql, revision_id, state, code, None if code is None else "It cannot be read.")
