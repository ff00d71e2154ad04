"""The text that a worker took out of a document's current revision."""

from uuid import UUID

from dms_ingest.documents import DocumentNotFound
from nexarch.db import Connection
from nexarch.errors import Conflict


class TextNotThere(Conflict):
    """The current revision is not processed: not yet, or it could not be; `processing_state` says which."""

    code = "text-not-there"
    title = "The document has no text"


async def processed_revision(conn: Connection, document_id: UUID) -> UUID:
    """The current revision of a document if its text is there; DocumentNotFound, TextNotThere."""
    sql = """
        SELECT r.id, r.processing_state
        FROM documents AS d
        LEFT JOIN file_revisions AS r ON r.id = d.current_revision_id
        WHERE d.id = $1 AND d.deleted_at IS NULL
    """
    row = await conn.fetchrow(sql, document_id)
    if row is None:
        raise DocumentNotFound("There is no such document.")
    if row["processing_state"] != "processed":
        raise TextNotThere("The document is not processed.", processing_state=row["processing_state"])
    revision_id: UUID = row["id"]
    return revision_id


async def text_part(conn: Connection, revision_id: UUID, number: int) -> str | None:
    """Part `number`, from 0, of a revision's text, some 24,000 characters; None behind the last."""
    sql = "SELECT content FROM document_texts WHERE revision_id = $1 AND part = $2"
    content: str | None = await conn.fetchval(sql, revision_id, number)
    return content
