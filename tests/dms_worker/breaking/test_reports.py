"""What users of other queues reported, where no test elsewhere has it: see docs/queue-reports.md."""

import asyncio
import re
import statistics
import time
from collections import Counter
from pathlib import Path

import pytest

from dms_worker.job_types import JobContext, JobType
from dms_worker.pools import SESSION
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_each_start_of_a_worker_has_a_name_of_its_own(bus_dsn: str, tenant_dsn: str) -> None:
    async with working([], {}, bus_dsn) as first, working([], {}, bus_dsn) as second:
        assert first.name != second.name


async def test_an_attempt_cannot_use_the_lock_of_the_next_one_though_the_worker_is_the_same(
    tenant_conn: Connection,
) -> None:
    await jobs.enqueue(tenant_conn, "task", {})
    (before,) = await jobs.claim(tenant_conn, "same", {"task": 1})
    await tenant_conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour'")
    await jobs.reclaim(tenant_conn, ["task"], 60)
    (after,) = await jobs.claim(tenant_conn, "same", {"task": 1})

    assert await jobs.heartbeat(tenant_conn, [before], [None]) == {}
    assert await jobs.complete(tenant_conn, [before]) == set()
    assert await jobs.complete(tenant_conn, [after]) == {after.id}


async def test_a_job_completed_while_it_is_reclaimed_stays_completed(conn: Connection, tenant_dsn: str) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    (job,) = await jobs.claim(conn, "tests", {"task": 1})
    await conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour'")
    other = await connect(tenant_dsn, application_name="tests")
    async with conn.transaction():
        await jobs.complete(conn, [job])

        assert await jobs.reclaim(other, ["task"], 60) == 0

    assert await jobs.reclaim(other, ["task"], 60) == 0
    assert (await jobs.get_job(other, job_id)).status == "succeeded"
    await other.close()


async def test_a_slot_whose_job_was_lost_is_freed_once(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    numbers: Counter[str] = Counter()

    async def count(ctx: JobContext) -> None:
        numbers["running"] += 1
        numbers["most"] = max(numbers["most"], numbers["running"])
        numbers["entered"] += 1
        try:
            await asyncio.sleep(ctx.job.payload["seconds"])  # the job's own length, not a wait
        finally:
            numbers["running"] -= 1

    types = [JobType(name="task", handler=count, concurrency=1)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):
        for number in range(1, 4):
            await jobs.enqueue(conn, "task", {"seconds": 3600})
            bell.ring("acme")

            async def it_runs(number: int = number) -> bool:
                return numbers["entered"] == number

            await eventually(it_runs)
            # Given up by hand under the worker, which learns it with its next heartbeat.
            await conn.execute("""
                UPDATE processing_jobs
                SET status = 'failed', finished_at = now(), locked_at = NULL, locked_by = NULL
                WHERE status = 'processing'
            """)
        await jobs.enqueue_many(conn, [NewJob("task", {"seconds": 0.01}) for _ in range(30)])
        bell.ring("acme")

        async def all_have_ended() -> bool:
            return not await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE finished_at IS NULL")

        await eventually(all_have_ended)

    assert numbers["entered"] == 33
    assert numbers["most"] == 1


async def test_no_claim_takes_more_than_it_asked_for_though_many_claim_at_once_on_stale_statistics(
    conn: Connection, tenant_dsn: str
) -> None:
    await conn.execute("ANALYZE processing_jobs")  # of an empty table
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(2000)])
    sessions = [await connect(tenant_dsn, application_name="tests") for _ in range(6)]

    async def claim_all(session: Connection) -> list[int]:
        sizes = []
        while claimed := await jobs.claim(session, "tests", {"task": 7}):
            sizes.append(len(claimed))
        return sizes

    sizes = await asyncio.gather(*(claim_all(session) for session in sessions))

    assert max(size for of_session in sizes for size in of_session) == 7
    assert sum(size for of_session in sizes for size in of_session) == 2000
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts <> 1") == 0
    for session in sessions:
        await session.close()


async def test_the_backlog_of_one_type_does_not_slow_down_the_claim_of_another(conn: Connection) -> None:
    for name, value in SESSION.items():
        await conn.execute(f"SET {name} = {value}")
    await conn.execute("ANALYZE processing_jobs")
    before_s = await lone_claim_s(conn)

    await jobs.enqueue_many(conn, [NewJob("backlog", {}) for _ in range(50_000)])

    # A plan that looks at all of the backlog takes tens of times as long.
    assert await lone_claim_s(conn) < 5 * before_s


async def lone_claim_s(conn: Connection) -> float:
    """How long a claim takes that finds one job: the median of some."""
    times = []
    for _ in range(30):
        await jobs.enqueue(conn, "lone", {})
        started = time.perf_counter()
        (job,) = await jobs.claim(conn, "tests", {"lone": 10})
        times.append(time.perf_counter() - started)
        await jobs.complete(conn, [job])
    return statistics.median(times)


def test_every_test_that_the_table_of_reports_names_exists() -> None:
    root = Path(__file__).parents[3]
    named = set(re.findall(r"`(test_\w+)`", (root / "docs/queue-reports.md").read_text()))
    tests = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))

    assert len(named) > 40
    assert {name for name in named if f"def {name}(" not in tests} == set()
