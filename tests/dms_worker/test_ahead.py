"""The look ahead: what is found for later is begun in time, by this worker or by another."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.ahead import Ahead
from dms_worker.depths import Depths
from dms_worker.due import DueTenants
from dms_worker.job_types import DeadJob, JobContext, JobType
from dms_worker.metrics import JobMetrics
from nexarch import jobs
from nexarch.db import Connection
from nexarch.listen import Listener
from support.waiting import eventually

pytestmark = pytest.mark.database

STALE_S = 60.0


async def nothing(_ctx: JobContext) -> None:
    pass


async def refuse(_dead: DeadJob, _error: jobs.JobError) -> None:
    raise KeyError("a fault in the hook")


@pytest.fixture
async def due() -> AsyncIterator[DueTenants]:
    due = DueTenants(["task"])
    yield due
    due.close()


@pytest.fixture
def rung() -> list[str]:
    """The tenants for which the other workers were rung."""
    return []


@pytest.fixture
def make_ahead(due: DueTenants, rung: list[str]) -> Callable[[float], Ahead]:
    registry = CollectorRegistry()
    types = {"task": JobType(name="task", handler=nothing, on_dead=refuse)}
    listener = Listener("postgresql://nobody@127.0.0.1/nowhere", {}, application_name="tests")
    metrics = JobMetrics(registry, listener, types)
    depths = Depths(registry, types)
    return lambda stale_after_s: Ahead(types, stale_after_s, due, depths, metrics, rung.append)


@pytest.fixture
def ahead(make_ahead: Callable[[float], Ahead]) -> Ahead:
    return make_ahead(STALE_S)


async def held_by_another(conn: Connection, *, for_s: float, max_attempts: int = 5) -> None:
    """A job whose worker gave its last sign of life so long ago."""
    await jobs.enqueue(conn, "task", {}, max_attempts=max_attempts)
    await jobs.claim(conn, "another", {"task": 1})
    await conn.execute("UPDATE processing_jobs SET locked_at = now() - make_interval(secs => $1)", for_s)


async def test_all_workers_are_rung_for_a_job_that_was_taken_back_from_a_dead_one(
    ahead: Ahead, due: DueTenants, rung: list[str], tenant_conn: Connection
) -> None:
    await held_by_another(tenant_conn, for_s=STALE_S + 1)

    await ahead.look("acme", tenant_conn)

    assert rung == ["acme"]
    assert len(due) == 1


async def test_nobody_is_rung_while_the_worker_that_holds_a_job_may_live(
    ahead: Ahead, due: DueTenants, rung: list[str], tenant_conn: Connection
) -> None:
    await held_by_another(tenant_conn, for_s=STALE_S - 10)

    await ahead.look("acme", tenant_conn)

    assert rung == []
    assert len(due) == 0


async def test_the_locks_of_a_tenant_are_due_a_third_of_the_stale_time_after_its_first_turn_or_its_last_look(
    make_ahead: Callable[[float], Ahead], tenant_conn: Connection
) -> None:
    ahead = make_ahead(4.5)

    async def are_due() -> bool:
        return ahead.locks_are_due("acme")

    at_first = await are_due()
    await eventually(are_due)
    await ahead.look("acme", tenant_conn)

    assert not at_first
    assert not await are_due()


async def test_what_could_not_be_given_up_is_looked_at_again_a_third_of_the_stale_time_later_and_not_at_once(
    make_ahead: Callable[[float], Ahead], due: DueTenants, rung: list[str], tenant_conn: Connection
) -> None:
    await held_by_another(tenant_conn, for_s=60, max_attempts=1)
    started = time.monotonic()

    await make_ahead(3.0).look("acme", tenant_conn)
    turn = await asyncio.wait_for(due.take(), 10)

    assert turn is not None
    assert time.monotonic() - started > 0.95
    assert rung == []
