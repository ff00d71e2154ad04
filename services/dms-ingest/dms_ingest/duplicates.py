"""Files whose bytes a document has already, by the tenant's policy: rejected, linked to what is stored, or allowed.

The bytes count, by their SHA-256, not the name. What lies in the trash does not count: who has thrown a file away may
upload it again. Nor do older revisions of the very document that is uploaded to: it may return to one. Nor what the
check of the object store has found missing or damaged: who sends it again mends the loss.
"""

from dataclasses import dataclass
from uuid import UUID

from dms_ingest.revisions import RevisionNotFound, SealedRevision, sealed_revision
from nexarch.db import Connection, fetch_optional
from nexarch.errors import Conflict


class DuplicateFile(Conflict):
    """A document has these bytes already: revision `revision` of `document_id`."""

    code = "duplicate-file"
    title = "The file is there already"


async def reserve_content(conn: Connection, sha256: bytes) -> None:
    """Let nobody else decide about these bytes until the transaction ends.

    Otherwise two who upload the same file at once would each find that it is not there.
    """
    sql = "SELECT pg_advisory_xact_lock(hashtextextended('nexarch content ' || encode($1, 'hex'), 0))"
    await conn.execute(sql, sha256)


async def find_twin(conn: Connection, sha256: bytes, document_id: UUID | None) -> SealedRevision | None:
    """The oldest revision with these bytes, kept from being purged until the transaction ends; None if there is none.

    `document_id` is the document that the file is for: of its revisions only the current one counts.
    """
    while place := await _hold_oldest(conn, sha256, document_id):
        try:
            return await sealed_revision(conn, place.document_id, place.number)
        except RevisionNotFound:  # put into the trash since, which the lock does not hinder
            continue
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    document_id: UUID
    number: int


async def _hold_oldest(conn: Connection, sha256: bytes, document_id: UUID | None) -> _Place | None:
    sql = """
        SELECT r.document_id, r.number
        FROM file_revisions AS r JOIN documents AS d ON d.id = r.document_id
            JOIN stored_objects AS o ON o.storage_key = r.storage_key
        WHERE r.checksum_sha256 = $1 AND d.deleted_at IS NULL AND o.damage IS NULL
            AND (d.id IS DISTINCT FROM $2 OR r.id = d.current_revision_id)
        ORDER BY r.id
        LIMIT 1
        FOR KEY SHARE OF d
    """
    return await fetch_optional(conn, _Place, sql, sha256, document_id)


def refuse(twin: SealedRevision) -> DuplicateFile:
    """The error that names the document that has the bytes."""
    return DuplicateFile(
        f"The document {twin.document_name!r} has this very file already, as its revision {twin.number}.",
        document_id=str(twin.document_id),
        revision=twin.number,
    )
