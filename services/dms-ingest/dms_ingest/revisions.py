"""Revisions: the files of a document, numbered from 1. A revision never changes; only its processing state does."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from dms_ingest import processing
from dms_ingest.documents import DocumentNotFound
from nexarch import usage
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import NotFound, Unavailable
from nexarch.storage import revision_key


class RevisionNotFound(NotFound):
    """The document has no revision of this number, or there is no such document."""

    code = "revision-not-found"


class WrappingOutdated(Unavailable):
    """The version of the tenant's key that a revision's key is wrapped under was retired meanwhile.

    To read, read the row again; to write, wrap the key anew.
    """

    code = "wrapping-outdated"
    title = "The tenant's key was rotated meanwhile"

    def __init__(self) -> None:
        super().__init__("The tenant's key was rotated meanwhile; try again.", retry_after_s=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRevision:
    """A sealed and stored file that is to become the next revision of a document."""

    id: UUID
    document_id: UUID
    checksum_sha256: bytes  # of the plaintext
    size_bytes: int  # of the plaintext
    mime_type: str
    wrapped_dek: bytes
    kek_version: int
    created_by: UUID
    storage_key: str | None = None  # of the object that it shares with the revision it is a copy of; None: its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One row of `file_revisions`, as people see it, with what is wrong with its object (see `dms_ingest.damage`)."""

    id: UUID
    document_id: UUID
    number: int
    checksum_sha256: bytes
    size_bytes: int
    mime_type: str
    processing_state: str
    processing_error_code: str | None
    processing_error_detail: str | None
    page_count: int | None
    created_by: UUID | None
    created_at: datetime
    damage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRevision:
    """What is needed to open the stored object of a revision."""

    id: UUID
    document_id: UUID
    document_name: str
    link_epoch: int  # of the document
    number: int
    storage_key: str
    checksum_sha256: bytes
    size_bytes: int
    mime_type: str
    wrapped_dek: bytes
    kek_version: int
    created_at: datetime


async def add_revision(conn: Connection, new: NewRevision) -> Revision:
    """Make a stored file the current revision of its document, with its job and its usage.

    Call it in the transaction that also creates the document or closes the upload; ring after the commit.
    Raises DocumentNotFound for a document that is not there or in the trash, QuotaExceeded and WrappingOutdated.
    """
    revision = await insert_current(conn, new)
    await usage.check_quota(conn, coming_bytes=0)
    await usage.record_storage(conn, new.size_bytes)
    await processing.enqueue_extraction(conn, new.document_id, new.id)
    return revision


async def new_revision_id(conn: Connection) -> UUID:
    """A UUIDv7 of the server's clock."""
    revision_id: UUID = await conn.fetchval("SELECT uuidv7()")
    return revision_id


async def insert_current(conn: Connection, new: NewRevision) -> Revision:
    """Only the row of `add_revision`, for who counts usage and sees to the text otherwise; DocumentNotFound."""
    await _make_current(conn, new)
    return await _insert(conn, new)


async def _make_current(conn: Connection, new: NewRevision) -> None:
    """Also locks the document, so that the revisions of two uploads at once get two numbers."""
    sql = """
        UPDATE documents
        SET current_revision_id = $2, version = version + 1, updated_at = now()
        WHERE id = $1 AND deleted_at IS NULL
        RETURNING true
    """
    if await conn.fetchval(sql, new.document_id, new.id) is None:
        raise DocumentNotFound("There is no such document.")


async def _insert(conn: Connection, new: NewRevision) -> Revision:
    sql = """
        INSERT INTO file_revisions (id, document_id, number, storage_key, checksum_sha256, size_bytes, mime_type,
            wrapped_dek, kek_version, created_by)
        SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, $6, $7, $8, $9
        FROM file_revisions
        WHERE document_id = $2
        RETURNING id, document_id, number, checksum_sha256, size_bytes, mime_type, processing_state,
            processing_error_code, processing_error_detail, page_count, created_by, created_at,
            (SELECT o.damage FROM stored_objects AS o WHERE o.storage_key = file_revisions.storage_key) AS damage
    """
    try:
        return await fetch_one(
            conn,
            Revision,
            sql,
            new.id,
            new.document_id,
            new.storage_key or revision_key(new.document_id, new.id),
            new.checksum_sha256,
            new.size_bytes,
            new.mime_type,
            new.wrapped_dek,
            new.kek_version,
            new.created_by,
        )
    except asyncpg.ForeignKeyViolationError as error:
        if error.constraint_name != "file_revisions_kek_version_fkey":
            raise
        raise WrappingOutdated from error


async def list_revisions(conn: Connection, document_id: UUID, *, before: int | None, limit: int) -> list[Revision]:
    """The revisions of a document, newest first, from the number below `before`; none for a document in the trash."""
    sql = """
        SELECT r.id, r.document_id, r.number, r.checksum_sha256, r.size_bytes, r.mime_type, r.processing_state,
            r.processing_error_code, r.processing_error_detail, r.page_count, r.created_by, r.created_at, o.damage
        FROM file_revisions AS r JOIN documents AS d ON d.id = r.document_id
            JOIN stored_objects AS o ON o.storage_key = r.storage_key
        WHERE r.document_id = $1 AND d.deleted_at IS NULL AND r.number < coalesce($2, 2147483647)
        ORDER BY r.number DESC
        LIMIT $3
    """
    return await fetch_all(conn, Revision, sql, document_id, before, limit)


async def sealed_revision(conn: Connection, document_id: UUID, number: int | None = None) -> SealedRevision:
    """The revision of this number, or the current one; RevisionNotFound, also for a document in the trash."""
    sql = """
        SELECT r.id, r.document_id, d.name AS document_name, d.link_epoch, r.number, r.storage_key, r.checksum_sha256,
            r.size_bytes, r.mime_type, r.wrapped_dek, r.kek_version, r.created_at
        FROM documents AS d JOIN file_revisions AS r ON r.document_id = d.id
        WHERE d.id = $1 AND d.deleted_at IS NULL
            AND CASE WHEN $2::integer IS NULL THEN r.id = d.current_revision_id ELSE r.number = $2 END
    """
    revision = await fetch_optional(conn, SealedRevision, sql, document_id, number)
    if revision is None:
        raise RevisionNotFound("There is no such revision of this document.")
    return revision
