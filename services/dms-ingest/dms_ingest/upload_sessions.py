"""Upload sessions: what is to come, and which byte ranges of it have come.

A session belongs to one person. Progress is a set of ranges, not the highest offset: a file with a hole is never whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from dms_ingest.documents import DocumentNotFound
from dms_ingest.folders import FolderNotFound
from dms_ingest.names import NameRefused
from nexarch.db import Connection, fetch_optional
from nexarch.errors import Conflict, Invalid, NotFound
from nexarch.idempotency import IdempotencyKeyReused


class UploadNotFound(NotFound):
    """There is no such upload of this person, or it was ended."""

    code = "upload-not-found"


class UploadClosed(Conflict):
    """The upload is complete: it takes no bytes and cannot be ended."""

    code = "upload-closed"
    title = "The upload is complete"


class LengthFixed(Invalid):
    """The length of the upload is known already and is another, or fewer bytes than have come."""

    code = "length-fixed"
    title = "The upload has another length"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What someone announces: a new document in a folder (None: the top), or the next revision of a document."""

    filename: str  # in NFC
    mime_type: str
    size_bytes: int
    folder_id: UUID | None
    document_id: UUID | None
    sha256: bytes | None
    length_deferred: bool = False  # size_bytes is the most that may come until `set_length`
    tus_metadata: str | None = None
    concat_kind: str | None = None  # partial or final
    concat_parts: Sequence[UUID] | None = None  # of a final one


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One row of `upload_sessions` that was not ended."""

    id: UUID
    user_id: UUID
    filename: str
    mime_type: str
    size_bytes: int
    folder_id: UUID | None
    document_id: UUID | None
    sha256: bytes | None
    received: Sequence[asyncpg.Range[int]]  # sorted, with gaps between them; see `ranges`
    state: str  # open or complete
    completed_document_id: UUID | None
    completed_revision_id: UUID | None
    created_at: datetime
    expires_at: datetime
    length_deferred: bool
    tus_metadata: str | None  # the header, see `tus_headers`
    concat_kind: str | None  # partial: never a document by itself; final: put together from partial ones
    concat_parts: Sequence[UUID] | None  # of a final one, in their order
    concat_into: UUID | None  # of a partial one: the final one that has its bytes now

    def ranges(self) -> list[tuple[int, int]]:
        """The byte ranges that lie on disk, in order: from the first up to but without the second."""
        # Bounds of a range of the schema are never open: it lies within 0 and size_bytes.
        return [(part.lower or 0, part.upper or 0) for part in self.received]

    def missing(self) -> list[tuple[int, int]]:
        """The byte ranges that have not come, in the same form."""
        ends = [0, *(end for _, end in self.ranges())]
        starts = [*(start for start, _ in self.ranges()), self.size_bytes]
        return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]

    def offset(self) -> int:
        """How many bytes have come without a gap from the first on."""
        return next((end for start, end in self.ranges() if start == 0), 0)

    def is_whole(self) -> bool:
        """Whether all is there to make a document of it, or a part of one."""
        return not self.length_deferred and not self.missing()


async def create_session(
    conn: Connection, user_id: UUID, new: NewSession, *, lifetime_s: float, idempotency_key: str | None
) -> Session:
    """Open a session, or return the one that the same person opened with this key.

    Raises NameRefused, FolderNotFound, DocumentNotFound and IdempotencyKeyReused.
    """
    session = await _insert(conn, user_id, new, lifetime_s, idempotency_key)
    if session is None and idempotency_key is not None:
        session = await _by_key(conn, user_id, idempotency_key)
        if session is not None and _announcement(session) != new:
            raise IdempotencyKeyReused
    if session is not None:
        return session
    if new.document_id is not None:
        raise DocumentNotFound("There is no such document.")
    raise FolderNotFound("There is no such folder.")


async def _insert(
    conn: Connection, user_id: UUID, new: NewSession, lifetime_s: float, idempotency_key: str | None
) -> Session | None:
    """Returns None where the key was used before, or the folder or document is not there or in the trash."""
    sql = """
        INSERT INTO upload_sessions (user_id, filename, mime_type, size_bytes, folder_id, document_id, sha256,
            expires_at, idempotency_key, length_deferred, tus_metadata, concat_kind, concat_parts)
        SELECT $1, $2, $3, $4, $5::uuid, $6::uuid, $7, now() + make_interval(secs => $8), $9, $10, $11, $12, $13
        WHERE ($5::uuid IS NULL OR EXISTS (SELECT FROM folders WHERE id = $5 AND deleted_at IS NULL))
            AND ($6::uuid IS NULL OR EXISTS (SELECT FROM documents WHERE id = $6 AND deleted_at IS NULL))
        ON CONFLICT (user_id, idempotency_key) DO NOTHING
        RETURNING id, user_id, filename, mime_type, size_bytes, folder_id, document_id, sha256, received, state,
            completed_document_id, completed_revision_id, created_at, expires_at,
            length_deferred, tus_metadata, concat_kind, concat_parts, concat_into
    """
    try:
        return await fetch_optional(
            conn,
            Session,
            sql,
            user_id,
            new.filename,
            new.mime_type,
            new.size_bytes,
            new.folder_id,
            new.document_id,
            new.sha256,
            lifetime_s,
            idempotency_key,
            new.length_deferred,
            new.tus_metadata,
            new.concat_kind,
            new.concat_parts,
        )
    except asyncpg.CheckViolationError as error:
        if error.constraint_name != "upload_sessions_filename_form":
            raise
        raise NameRefused(
            "A file name has 1 to 255 characters, no slash and no control character, and is not '.' or '..'."
        ) from error


async def _by_key(conn: Connection, user_id: UUID, idempotency_key: str) -> Session | None:
    sql = """
        SELECT id, user_id, filename, mime_type, size_bytes, folder_id, document_id, sha256, received, state,
            completed_document_id, completed_revision_id, created_at, expires_at,
            length_deferred, tus_metadata, concat_kind, concat_parts, concat_into
        FROM upload_sessions
        WHERE user_id = $1 AND idempotency_key = $2
    """
    return await fetch_optional(conn, Session, sql, user_id, idempotency_key)


def _announcement(session: Session) -> NewSession:
    return NewSession(
        filename=session.filename,
        mime_type=session.mime_type,
        size_bytes=session.size_bytes,
        folder_id=session.folder_id,
        document_id=session.document_id,
        sha256=session.sha256,
        length_deferred=session.length_deferred,
        tus_metadata=session.tus_metadata,
        concat_kind=session.concat_kind,
        concat_parts=session.concat_parts,
    )


async def get_session(conn: Connection, user_id: UUID, session_id: UUID) -> Session:
    """A session of this person; UploadNotFound for anybody else's and for one that was ended."""
    sql = """
        SELECT id, user_id, filename, mime_type, size_bytes, folder_id, document_id, sha256, received, state,
            completed_document_id, completed_revision_id, created_at, expires_at,
            length_deferred, tus_metadata, concat_kind, concat_parts, concat_into
        FROM upload_sessions
        WHERE id = $2 AND user_id = $1 AND state <> 'aborted'
    """
    session = await fetch_optional(conn, Session, sql, user_id, session_id)
    if session is None:
        raise UploadNotFound("There is no such upload.")
    return session


async def record_received(conn: Connection, session_id: UUID, start: int, stop: int, *, lifetime_s: float) -> Session:
    """Add a range of bytes that lie on disk, and let the session live on; UploadNotFound if it is not open."""
    sql = """
        UPDATE upload_sessions
        SET received = received + int8multirange(int8range($2, $3)), updated_at = now(),
            expires_at = now() + make_interval(secs => $4)
        WHERE id = $1 AND state = 'open'
        RETURNING id, user_id, filename, mime_type, size_bytes, folder_id, document_id, sha256, received, state,
            completed_document_id, completed_revision_id, created_at, expires_at,
            length_deferred, tus_metadata, concat_kind, concat_parts, concat_into
    """
    session = await fetch_optional(conn, Session, sql, session_id, start, stop, lifetime_s)
    if session is None:
        raise UploadNotFound("The upload was ended meanwhile.")
    return session


async def set_length(conn: Connection, session_id: UUID, size_bytes: int) -> None:
    """Say how long an upload of deferred length is; LengthFixed if that is known already or less than has come."""
    sql = """
        UPDATE upload_sessions
        SET size_bytes = $2, length_deferred = false, updated_at = now()
        WHERE id = $1 AND state = 'open' AND length_deferred
        RETURNING true
    """
    try:
        changed = await conn.fetchval(sql, session_id, size_bytes)
    except asyncpg.CheckViolationError as error:
        if error.constraint_name != "upload_sessions_received_within_size":
            raise
        raise LengthFixed("More bytes than this length have come.") from error
    if changed is None:
        raise LengthFixed("The length of this upload is known already.")


async def extend_session(conn: Connection, session_id: UUID, *, lifetime_s: float) -> None:
    """Let an open session live on from now."""
    sql = """
        UPDATE upload_sessions
        SET updated_at = now(), expires_at = now() + make_interval(secs => $2)
        WHERE id = $1 AND state = 'open'
    """
    await conn.execute(sql, session_id, lifetime_s)


async def forget_received(conn: Connection, session_id: UUID, lost: Sequence[tuple[int, int]]) -> None:
    """Take back ranges that were recorded of an open session. A part whose file has its bytes stays whole."""
    sql = """
        UPDATE upload_sessions
        SET received = received - $2::int8multirange, updated_at = now()
        WHERE id = $1 AND state = 'open' AND concat_into IS NULL
    """
    await conn.execute(sql, session_id, [asyncpg.Range(start, stop) for start, stop in lost])


async def close_session(conn: Connection, session_id: UUID, document_id: UUID, revision_id: UUID) -> bool:
    """Mark an open session complete, whose staged bytes nobody can read any more; False if it was closed before."""
    sql = """
        UPDATE upload_sessions
        SET state = 'complete', completed_document_id = $2, completed_revision_id = $3, wrapped_key = NULL,
            kek_version = NULL, updated_at = now()
        WHERE id = $1 AND state = 'open'
        RETURNING true
    """
    return await conn.fetchval(sql, session_id, document_id, revision_id) is not None


async def give_parts_to(conn: Connection, final_id: UUID, part_ids: Sequence[UUID]) -> None:
    """Note that a final upload has the bytes of these partial ones."""
    sql = (
        "UPDATE upload_sessions SET concat_into = $1, wrapped_key = NULL, kek_version = NULL, updated_at = now()"
        " WHERE id = ANY($2) AND concat_kind = 'partial'"
    )
    await conn.execute(sql, final_id, part_ids)


async def delete_complete(conn: Connection, session_id: UUID) -> None:
    """Forget a complete session; its document stays."""
    await conn.execute("DELETE FROM upload_sessions WHERE id = $1 AND state = 'complete'", session_id)


async def abort_session(conn: Connection, session_id: UUID) -> bool:
    """End an open session for good: its Idempotency-Key is free, its bytes are unreadable. False if it was not open."""
    sql = """
        UPDATE upload_sessions
        SET state = 'aborted', idempotency_key = NULL, wrapped_key = NULL, kek_version = NULL, updated_at = now()
        WHERE id = $1 AND state = 'open'
        RETURNING true
    """
    return await conn.fetchval(sql, session_id) is not None


async def abort_expired(conn: Connection) -> int:
    """End the open sessions that have received nothing for their lifetime; returns how many."""
    sql = """
        WITH expired AS (
            UPDATE upload_sessions
            SET state = 'aborted', idempotency_key = NULL, wrapped_key = NULL, kek_version = NULL, updated_at = now()
            WHERE state = 'open' AND expires_at <= now()
            RETURNING id
        )
        SELECT count(*) FROM expired
    """
    count: int = await conn.fetchval(sql)
    return count


async def open_sessions(conn: Connection, session_ids: Sequence[UUID]) -> set[UUID]:
    """Those of the sessions that are open."""
    sql = "SELECT id FROM upload_sessions WHERE id = ANY($1) AND state = 'open'"
    return {row["id"] for row in await conn.fetch(sql, session_ids)}
