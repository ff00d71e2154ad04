"""The table of the queue by itself: what it refuses whoever writes it, and what a write costs it."""

import asyncpg
import pytest

from nexarch import jobs
from nexarch.db import Connection

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("locked", "status = 'processing'"),
        ("locked", "status = 'processing', locked_at = now()"),
        ("locked", "status = 'processing', locked_by = 'w1'"),
        ("locked", "locked_by = 'w1'"),
        ("locked", "locked_at = now()"),
        ("locked", "locked_at = now(), locked_by = 'w1'"),
        ("locked", "status = 'succeeded', finished_at = now(), locked_at = now(), locked_by = 'w1'"),
        ("finished", "finished_at = now()"),
        ("finished", "status = 'processing', locked_at = now(), locked_by = 'w1', finished_at = now()"),
        ("finished", "status = 'succeeded'"),
        ("finished", "status = 'failed'"),
        ("finished", "status = 'dead_letter'"),
        ("one_key", "idempotency_key = 'a', queued_key = 'b'"),
        ("one_key", "status = 'succeeded', finished_at = now(), idempotency_key = 'a', queued_key = 'b'"),
    ],
)
async def test_the_table_refuses_what_does_not_fit_its_status(tenant_conn: Connection, rule: str, change: str) -> None:
    job_id = await jobs.enqueue(tenant_conn, "task", {})

    with pytest.raises(asyncpg.CheckViolationError) as updated:
        async with tenant_conn.transaction():
            await tenant_conn.execute(f"UPDATE processing_jobs SET {change} WHERE id = $1", job_id)
    columns, values = zip(*(part.split(" = ") for part in change.split(", ")), strict=True)
    with pytest.raises(asyncpg.CheckViolationError) as inserted:
        async with tenant_conn.transaction():
            await tenant_conn.execute(
                f"INSERT INTO processing_jobs (job_type, payload, {', '.join(columns)})"
                f" VALUES ('task', '{{}}', {', '.join(values)})"
            )

    assert updated.value.constraint_name == inserted.value.constraint_name == f"processing_jobs_{rule}"


async def test_a_row_that_breaks_a_rule_is_named_by_its_rule_and_leaves_nothing_behind(tenant_conn: Connection) -> None:
    with pytest.raises(jobs.JobRefused, match="processing_jobs_one_key"):
        async with tenant_conn.transaction():
            await jobs.enqueue(tenant_conn, "task", {}, idempotency_key="a", queued_key="b")

    assert await tenant_conn.fetchval("SELECT count(*) FROM processing_jobs") == 0


async def test_the_index_that_guards_the_rules_stays_empty(tenant_conn: Connection) -> None:
    before = await tenant_conn.fetchval("SELECT pg_relation_size('processing_jobs_guard')")
    await jobs.enqueue_many(tenant_conn, [jobs.NewJob("task", {}) for _ in range(1000)])
    held = await jobs.claim(tenant_conn, "w1", {"task": 1000})

    await jobs.complete(tenant_conn, held)

    assert await tenant_conn.fetchval("SELECT pg_relation_size('processing_jobs_guard')") == before


async def test_a_heartbeat_writes_no_index(tenant_conn: Connection) -> None:
    sql = "SELECT pg_stat_get_xact_tuples_hot_updated('processing_jobs'::regclass)"
    await jobs.enqueue(tenant_conn, "task", {})
    held = await jobs.claim(tenant_conn, "w1", {"task": 1})
    before = await tenant_conn.fetchval(sql)

    await jobs.heartbeat(tenant_conn, held, [50])

    assert await tenant_conn.fetchval(sql) == before + 1
