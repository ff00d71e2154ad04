"""Which ended rows are removed, and when."""

import asyncio
import json
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import delete_document
from dms_ingest.purge import purge_document
from dms_ingest.upload_sessions import NewSession, UploadNotFound, abort_session, create_session, get_session
from dms_worker.handlers.prune_ended import EndedPruning
from dms_worker.job_types import JobContext
from nexarch.db import Connection, create_pool
from nexarch.jobs import ClaimedJob
from nexarch.usage import recount_storage
from support.database import TenantDatabase, add_user
from support.documents import add_document, next_revision

pytestmark = pytest.mark.database

DAY_S = 86400.0
KEPT = EndedPruning(uploads_kept_s=7 * DAY_S, usage_kept_s=30 * DAY_S, checks_kept_s=90 * DAY_S)


@pytest.fixture
async def user_id(tenant_database: TenantDatabase) -> UUID:
    return await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")


async def prune(database: TenantDatabase) -> None:
    async with create_pool(database.dsn, max_size=2, application_name="tests") as pool:
        job = ClaimedJob(uuid4(), 1, "prune_ended", json.dumps({}), 1, 5, None, 0.0, 0.0)
        await KEPT.run(JobContext("acme", job, pool))


async def upload(
    conn: Connection, user_id: UUID, state: str, *, days_ago: float, lives_days: float = 0.5, key: str | None = None
) -> UUID:
    """An upload of this state that last changed so long ago and expires so long after that."""
    new = NewSession(
        filename="a.pdf", mime_type="application/pdf", size_bytes=0, folder_id=None, document_id=None, sha256=None
    )
    session = await create_session(conn, user_id, new, lifetime_s=DAY_S, idempotency_key=key)
    if state == "aborted":
        await abort_session(conn, session.id)
    if state == "complete":
        document_id = await add_document(conn, user_id)
        sql = """
            UPDATE upload_sessions AS s
            SET state = 'complete', completed_document_id = r.document_id, completed_revision_id = r.id
            FROM file_revisions AS r WHERE s.id = $1 AND r.document_id = $2
        """
        await conn.execute(sql, session.id, document_id)
    sql = """
        UPDATE upload_sessions
        SET id = uuidv7(make_interval(days => -90)), created_at = now() - interval '90 days',
            updated_at = now() - make_interval(secs => $2),
            expires_at = now() - make_interval(secs => $2) + make_interval(secs => $3)
        WHERE id = $1
        RETURNING id
    """
    upload_id: UUID = await conn.fetchval(sql, session.id, days_ago * DAY_S, lives_days * DAY_S)
    return upload_id


async def there(conn: Connection, upload_id: UUID) -> bool:
    found: bool = await conn.fetchval("SELECT EXISTS (SELECT FROM upload_sessions WHERE id = $1)", upload_id)
    return found


async def test_ended_uploads_go_after_their_time_and_open_ones_never(
    tenant_database: TenantDatabase, conn: Connection, user_id: UUID
) -> None:
    gone = [await upload(conn, user_id, state, days_ago=7.1) for state in ("complete", "aborted")]
    kept = [
        await upload(conn, user_id, "complete", days_ago=6.9),
        await upload(conn, user_id, "aborted", days_ago=6.9),
        await upload(conn, user_id, "open", days_ago=40),
    ]

    await prune(tenant_database)

    assert [await there(conn, upload_id) for upload_id in gone] == [False, False]
    assert [await there(conn, upload_id) for upload_id in kept] == [True, True, True]
    assert await conn.fetchval("SELECT count(*) FROM documents") == 2  # documents stay


async def test_a_complete_upload_answers_its_client_for_its_whole_lifetime_and_its_key_is_not_free_before(
    tenant_database: TenantDatabase, conn: Connection, user_id: UUID
) -> None:
    alive = await upload(conn, user_id, "complete", days_ago=20, lives_days=30, key="mine")
    over = await upload(conn, user_id, "complete", days_ago=20, lives_days=19, key="other")

    await prune(tenant_database)

    assert (await get_session(conn, user_id, alive)).state == "complete"
    with pytest.raises(UploadNotFound):
        await get_session(conn, user_id, over)
    keys = await conn.fetch("SELECT idempotency_key FROM upload_sessions")
    assert [row["idempotency_key"] for row in keys] == ["mine"]


async def test_delivered_usage_goes_but_what_core_api_was_told_stays_known(
    tenant_database: TenantDatabase, conn: Connection, user_id: UUID
) -> None:
    first = await add_document(conn, user_id)
    await next_revision(conn, first, user_id, content=b"more bytes")
    await delete_document(conn, first, if_versions=None)
    async with conn.transaction():
        await purge_document(conn, first)
    await add_document(conn, user_id)
    # Two are delivered long ago, one is delivered lately, one waits.
    old = "SELECT id FROM usage_outbox ORDER BY id LIMIT 2"
    sql = f"UPDATE usage_outbox SET delivered_at = now() - interval '31 days' WHERE id IN ({old}) RETURNING id"
    ids = [row["id"] for row in await conn.fetch(sql)]
    for id_ in ids:
        await conn.execute("UPDATE usage_outbox SET id = uuidv7(interval '-32 days') WHERE id = $1", id_)
    await conn.execute("UPDATE usage_outbox SET delivered_at = now() WHERE delta < 0")

    await prune(tenant_database)
    async with conn.transaction():
        found = await recount_storage(conn)

    assert await conn.fetchval("SELECT count(*) FROM usage_outbox") == 2
    assert found.before_bytes == found.told_bytes == found.stored_bytes == len(b"content")


async def test_finished_checks_go_with_their_findings(tenant_database: TenantDatabase, conn: Connection) -> None:
    sql = """
        INSERT INTO store_checks (scope, phase, finished_at)
        VALUES ('all', 'finished', now() - make_interval(days => $1))
        RETURNING id
    """
    old, late = [await conn.fetchval(sql, days) for days in (91, 89)]
    await conn.execute("INSERT INTO store_checks (scope, created_at) VALUES ('all', now() - interval '200 days')")
    for check_id in (old, late):
        await conn.execute(
            "INSERT INTO store_findings (check_id, storage_key, kind) VALUES ($1, 'a', 'orphan')", check_id
        )

    await prune(tenant_database)

    assert await conn.fetchval("SELECT count(*) FROM store_checks") == 2
    assert await conn.fetchval("SELECT check_id FROM store_findings") == late


async def test_many_rows_go_in_steps(tenant_database: TenantDatabase, conn: Connection) -> None:
    sql = """
        INSERT INTO usage_outbox (id, metric, delta, delivered_at)
        SELECT uuidv7(interval '-60 days'), 'storage_bytes', 1, now() - interval '60 days'
        FROM generate_series(1, 2500)
    """
    await conn.execute(sql)

    async with asyncio.timeout(60):
        await prune(tenant_database)

    assert await conn.fetchval("SELECT count(*) FROM usage_outbox") == 0
    assert await conn.fetchval("SELECT forgotten_bytes FROM storage_usage") == 2500
