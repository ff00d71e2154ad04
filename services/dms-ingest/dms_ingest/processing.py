"""What happens to a revision after it is stored: the job that makes it searchable, and trying it again."""

from uuid import UUID

from nexarch import jobs
from nexarch.db import Connection
from nexarch.errors import Conflict
from nexarch.job_types import EXTRACT_TEXT, ExtractText
from nexarch.tracing import current_trace


class NotFailed(Conflict):
    """Only a document whose processing failed can be tried again."""

    code = "not-failed"
    title = "Its processing has not failed"


async def enqueue_extraction(conn: Connection, document_id: UUID, revision_id: UUID) -> UUID:
    """Queue the revision for text extraction and return the job's id, the same however often it is called."""
    payload = ExtractText(document_id=document_id, revision_id=revision_id)
    trace = current_trace()
    return await jobs.enqueue(
        conn,
        EXTRACT_TEXT,
        payload.model_dump(mode="json"),
        idempotency_key=payload.idempotency_key,
        traceparent=None if trace is None else str(trace),
    )


async def retry(conn: Connection, document_id: UUID) -> None:
    """Queue the failed current revision of a document again; NotFailed in any other state.

    The document is known to exist. Call it in a transaction and ring after the commit.
    """
    revision_id = await _reset(conn, document_id)
    if revision_id is None:
        raise NotFailed("Only a document whose processing failed can be tried again.")
    job_id = await enqueue_extraction(conn, document_id, revision_id)
    job = await jobs.get_job(conn, job_id)
    # Pending: the dead letter was pruned, and the job is new.
    if job.status != jobs.Status.PENDING:
        await jobs.requeue(conn, job_id, given_up=True)


async def _reset(conn: Connection, document_id: UUID) -> UUID | None:
    sql = """
        UPDATE file_revisions AS r
        SET processing_state = 'queued', processing_error_code = NULL, processing_error_detail = NULL,
            processed_at = NULL
        FROM documents AS d
        WHERE d.id = $1 AND d.deleted_at IS NULL AND r.id = d.current_revision_id AND r.processing_state = 'failed'
        RETURNING r.id
    """
    revision_id: UUID | None = await conn.fetchval(sql, document_id)
    return revision_id
