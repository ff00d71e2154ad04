"""Jobs that come round by themselves, with workers that come and go."""

import asyncio
import zlib
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from dms_worker.handlers.prune_jobs import JobPruning
from dms_worker.job_types import JobContext, JobType
from nexarch.db import Connection
from support import database
from support.database import Cluster
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_three_workers_of_which_some_die_run_one_job_a_period_in_each_tenant(
    bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    runs: Counter[tuple[str, str]] = Counter()

    async def note(ctx: JobContext) -> None:
        async with ctx.pool.acquire() as conn:
            slot = await conn.fetchval(period_of_the_job, ctx.job.id, zlib.crc32(ctx.tenant.encode()) / 2**32)
        runs[ctx.tenant, slot] += 1

    period_of_the_job = """
        SELECT date_bin('1 second', created_at, timestamptz 'epoch' + make_interval(secs => $2))::text
        FROM processing_jobs
        WHERE id = $1
    """

    job_type = JobType(name="round", handler=note, every_s=1.0)
    async with database.own_tenant(cluster) as other, AsyncExitStack() as stack:
        tenants = {"acme": tenant_dsn, "other": other.dsn}
        for _ in range(2):
            await stack.enter_async_context(working([job_type], tenants, bus_dsn))
        async with working([job_type], tenants, bus_dsn):
            await eventually(lambda: reached(runs, 2), within_s=10)
        await eventually(lambda: reached(runs, 5), within_s=10)

    assert set(runs.values()) == {1}
    assert {tenant for tenant, _ in runs} == {"acme", "other"}


async def reached(runs: Counter[tuple[str, str]], number: int) -> bool:
    return min((sum(1 for tenant, _ in runs if tenant == name) for name in ("acme", "other")), default=0) >= number


async def test_the_worker_prunes_what_ended_long_ago(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    sql = """
        INSERT INTO processing_jobs (id, job_type, payload, status, finished_at)
        SELECT uuidv7(-interval '2 days'), 'task', '{}', 'succeeded', now() - interval '1 day' * (n % 2)
        FROM generate_series(1, 4000) AS n
    """
    await conn.execute(sql)
    pruning = JobType(name="prune", handler=JobPruning(3600, 3600).run, every_s=1.0)

    async def pruned() -> bool:
        left = await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE job_type = 'task'")
        return bool(left == 2000)

    async with asyncio.timeout(30), working([pruning], {"acme": tenant_dsn}, bus_dsn):
        await eventually(pruned)
