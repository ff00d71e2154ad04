"""What the worker removes from the audit trail."""

import asyncio

import pytest

from dms_worker.handlers.prune_audit import AuditPruning
from dms_worker.job_types import JobType
from nexarch.db import connect
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database

DAY_S = 86400.0


async def test_the_worker_removes_events_that_are_older_than_they_are_kept(bus_dsn: str, tenant_dsn: str) -> None:
    conn = await connect(tenant_dsn, application_name="tests")
    sql = """
        INSERT INTO audit_events (id, action)
        SELECT uuidv7(-make_interval(days => 20 + 40 * (n % 2))), 'document.deleted' FROM generate_series(1, 5000) AS n
    """
    pruning = JobType(name="prune_audit", handler=AuditPruning(40 * DAY_S).run, every_s=1.0)

    async def pruned() -> bool:
        return bool(await conn.fetchval("SELECT count(*) FROM audit_events") == 2500)

    try:
        await conn.execute(sql)
        async with asyncio.timeout(60), working([pruning], {"acme": tenant_dsn}, bus_dsn):
            await eventually(pruned, within_s=50)
    finally:
        await conn.close()
