"""What waits, runs and is dead is told by metrics, and how long the first has waited."""

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.depths import Depths
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import JobError, NewJob
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


def depth(registry: CollectorRegistry, status: str) -> float | None:
    return registry.get_sample_value("nexarch_jobs_depth", {"job_type": "task", "status": status})


def oldest(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("nexarch_jobs_oldest_due_seconds", {"job_type": "task"}) or 0.0


async def test_jobs_are_counted_by_state_over_all_tenants(conn: Connection) -> None:
    registry = CollectorRegistry()
    depths = Depths(registry, ["task", "other"])
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(5)] + [NewJob("task", {}, delay_s=3600)])
    claimed = await jobs.claim(conn, "w1", {"task": 2})
    await jobs.fail(conn, claimed[0], JobError("x", "x"), delay_s=0, permanent=True)
    await conn.execute("UPDATE processing_jobs SET available_at = available_at - interval '90 s'")

    again_in_s = await depths.measure("acme", conn)
    await depths.measure("other", conn)

    assert [depth(registry, status) for status in ("pending", "processing", "dead_letter")] == [8, 2, 2]
    assert 90 <= oldest(registry) < 100
    assert again_in_s is not None
    assert again_in_s <= 15


async def test_a_queue_at_rest_asks_for_no_further_look(conn: Connection) -> None:
    registry = CollectorRegistry()
    depths = Depths(registry, ["task"])
    await jobs.enqueue(conn, "task", {}, delay_s=3600)

    assert await depths.measure("acme", conn) is None

    assert (depth(registry, "pending"), oldest(registry)) == (1, 0)


async def test_a_tenant_is_not_counted_again_within_seconds(conn: Connection) -> None:
    registry = CollectorRegistry()
    depths = Depths(registry, ["task"])
    await depths.measure("acme", conn)
    await jobs.enqueue(conn, "task", {})

    await depths.measure("acme", conn)

    assert depth(registry, "pending") == 0


async def test_a_worker_tells_its_dead_letters_and_the_depth_of_its_queues(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    async def fail(_ctx: JobContext) -> None:
        raise RuntimeError("never")

    registry = CollectorRegistry()
    # One dies in its worker, one is dead with its worker.
    await jobs.enqueue_many(conn, [NewJob("task", {}, max_attempts=1) for _ in range(2)])
    await jobs.claim(conn, "dead", {"task": 1})
    await conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour' WHERE status = 'processing'")

    async def both_dead() -> bool:
        return registry.get_sample_value("nexarch_jobs_dead_letters_total", {"job_type": "task"}) == 2

    async with working([JobType(name="task", handler=fail)], {"acme": tenant_dsn}, bus_dsn, registry=registry):
        await eventually(both_dead)

    assert registry.get_sample_value("nexarch_jobs_reclaimed_total") == 1


async def test_counting_reads_no_row_of_the_table(conn: Connection) -> None:
    await conn.execute("""
        INSERT INTO processing_jobs (job_type, payload, status, finished_at)
        SELECT 'task', jsonb_build_object('filler', repeat('x', 200)), 'succeeded', now() FROM generate_series(1, 50000)
    """)
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(100)])
    await conn.execute("ANALYZE processing_jobs")
    scans = """
        SELECT pg_stat_force_next_flush(), (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'processing_jobs')
    """
    before = (await conn.fetchrow(scans))[1]  # type: ignore[index]

    assert [row.jobs for row in await jobs.depths(conn)] == [100]

    await conn.execute("SELECT pg_stat_force_next_flush()")
    assert (await conn.fetchrow(scans))[1] == before  # type: ignore[index]
