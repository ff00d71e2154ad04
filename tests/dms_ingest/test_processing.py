from uuid import UUID

import pytest

from dms_ingest.documents import get_document
from dms_ingest.processing import NotFailed, retry
from nexarch import jobs
from nexarch.db import Connection
from support.documents import add_document, set_state

pytestmark = pytest.mark.database


async def failed_document(conn: Connection, user_id: UUID) -> UUID:
    """A document whose job has died and whose state says so."""
    document_id = await add_document(conn, user_id)
    document = await get_document(conn, document_id)
    assert document.revision_id is not None
    [job] = await jobs.claim(conn, "worker-1", {"extract_text": 1})
    await jobs.fail(conn, job, jobs.JobError("broken", "It is broken."), delay_s=0, permanent=True)
    await set_state(conn, document.revision_id, "failed", code="broken")
    return document_id


async def test_a_failed_document_is_queued_again_with_its_own_job(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await failed_document(tenant_conn, tenant_user)

    await retry(tenant_conn, document_id)

    document = await get_document(tenant_conn, document_id)
    job_rows = await tenant_conn.fetch("SELECT status, attempts FROM processing_jobs")
    assert (document.processing_state, document.processing_error_code) == ("queued", None)
    assert [tuple(row) for row in job_rows] == [("pending", 0)]


async def test_a_retry_after_the_dead_letter_was_pruned_makes_a_new_job(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await failed_document(tenant_conn, tenant_user)
    await tenant_conn.execute("DELETE FROM processing_jobs")

    await retry(tenant_conn, document_id)

    assert await tenant_conn.fetchval("SELECT status FROM processing_jobs") == "pending"


@pytest.mark.parametrize("state", ["queued", "processing", "processed"])
async def test_only_a_failed_document_is_tried_again(tenant_conn: Connection, tenant_user: UUID, state: str) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    document = await get_document(tenant_conn, document_id)
    assert document.revision_id is not None
    await set_state(tenant_conn, document.revision_id, state)

    with pytest.raises(NotFailed):
        await retry(tenant_conn, document_id)
