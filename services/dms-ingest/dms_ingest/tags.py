"""Tags: words that people put on documents."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from dms_ingest.documents import hold_document
from dms_ingest.names import composed, name_rules
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, NotFound


class TagNotFound(NotFound):
    """There is no such tag in this tenant."""

    code = "tag-not-found"


class TagNameTaken(Conflict):
    """Another tag has this name, in whatever case."""

    code = "tag-name-taken"
    title = "The name is taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One row of `tags`."""

    id: UUID
    name: str
    created_at: datetime


async def create_tag(conn: Connection, name: str) -> Tag:
    """Add a tag. Raises NameRefused and TagNameTaken."""
    sql = "INSERT INTO tags (name) VALUES ($1) RETURNING id, name, created_at"
    try:
        with name_rules():
            return await fetch_one(conn, Tag, sql, composed(name))
    except asyncpg.UniqueViolationError as error:
        raise TagNameTaken("There is a tag of this name.") from error


async def list_tags(conn: Connection, *, after: tuple[str, UUID] | None, limit: int) -> list[Tag]:
    """Tags by name, from the one behind `after`."""
    sql = """
        SELECT id, name, created_at
        FROM tags
        WHERE $1::text IS NULL OR (name COLLATE "C", id) > ($1::text COLLATE "C", $2::uuid)
        ORDER BY name COLLATE "C", id
        LIMIT $3
    """
    name, tag_id = after if after is not None else (None, None)
    return await fetch_all(conn, Tag, sql, name, tag_id, limit)


async def rename_tag(conn: Connection, tag_id: UUID, name: str) -> Tag:
    """Give a tag another name, on every document that has it. Raises TagNotFound, NameRefused and TagNameTaken."""
    sql = "UPDATE tags SET name = $2 WHERE id = $1 RETURNING id, name, created_at"
    try:
        with name_rules():
            tag = await fetch_optional(conn, Tag, sql, tag_id, composed(name))
    except asyncpg.UniqueViolationError as error:
        raise TagNameTaken("There is a tag of this name.") from error
    if tag is None:
        raise TagNotFound("There is no such tag.")
    return tag


async def delete_tag(conn: Connection, tag_id: UUID) -> None:
    """Delete a tag and take it off every document. Raises TagNotFound."""
    sql = "DELETE FROM tags WHERE id = $1 RETURNING true"
    if await conn.fetchval(sql, tag_id) is None:
        raise TagNotFound("There is no such tag.")


async def assign_tag(conn: Connection, document_id: UUID, tag_id: UUID) -> None:
    """Put a tag on a document, if it is not there yet; call it in a transaction.

    Raises DocumentNotFound and TagNotFound.
    """
    sql = "INSERT INTO document_tags (document_id, tag_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    await hold_document(conn, document_id)
    try:
        await conn.execute(sql, document_id, tag_id)
    except asyncpg.ForeignKeyViolationError as error:
        raise TagNotFound("There is no such tag.") from error


async def unassign_tag(conn: Connection, document_id: UUID, tag_id: UUID) -> None:
    """Take a tag off a document; call it in a transaction.

    Raises DocumentNotFound, and TagNotFound if it is not on it.
    """
    sql = "DELETE FROM document_tags WHERE document_id = $1 AND tag_id = $2 RETURNING true"
    await hold_document(conn, document_id)
    if await conn.fetchval(sql, document_id, tag_id) is None:
        raise TagNotFound("The document does not have this tag.")
