"""The look ahead: what is found for later is begun in time, by this worker or by another."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.ahead import Ahead
from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason, Turn
from dms_worker.job_types import DeadJob, JobContext, JobType
from dms_worker.metrics import JobMetrics
from nexarch import jobs
from nexarch.db import DATABASE_ERRORS, Connection, connect
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
    due = DueTenants(["task", "other"])
    yield due
    due.close()


@pytest.fixture
def rung() -> list[str]:
    """The tenants for which the other workers were rung."""
    return []


@pytest.fixture
def make_ahead(due: DueTenants, rung: list[str]) -> Callable[[float], Ahead]:
    registry = CollectorRegistry()
    types = {name: JobType(name=name, handler=nothing, on_dead=refuse) for name in ("task", "other")}
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


@pytest.mark.parametrize(("stale_after_s", "waiting", "due_after_s"), [(60.0, 0, 1.0), (1.2, 0, 0.4), (60.0, 75, 1.5)])
async def test_a_look_is_due_a_while_after_the_tenants_first_turn_or_the_last_look(
    make_ahead: Callable[[float], Ahead],
    due: DueTenants,
    tenant_conn: Connection,
    stale_after_s: float,
    waiting: int,
    due_after_s: float,
) -> None:
    ahead = make_ahead(stale_after_s)
    for number in range(waiting):
        due.mark(f"other{number}", Reason.RING)

    async def is_due() -> bool:
        return ahead.look_is_due("acme")

    started = time.monotonic()
    at_first = await is_due()
    await eventually(is_due)
    waited_s = time.monotonic() - started
    await ahead.look("acme", tenant_conn)

    assert not at_first
    assert waited_s >= due_after_s
    assert not await is_due()


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


async def now_s(conn: Connection) -> float:
    """Unix seconds by Postgres' clock."""
    seconds: float = await conn.fetchval("SELECT extract(epoch FROM now())::float8")
    return seconds


async def test_claims_may_begin_a_second_before_the_look_that_found_nothing_due(
    ahead: Ahead, tenant_conn: Connection
) -> None:
    await jobs.enqueue(tenant_conn, "task", {}, delay_s=60)
    at_first = ahead.front("acme")
    before = await now_s(tenant_conn)

    await ahead.look("acme", tenant_conn)

    after = await now_s(tenant_conn)
    assert at_first == {}
    assert ahead.front("acme").keys() == {"task", "other"}
    assert all(before - 1 <= front <= after - 1 for front in ahead.front("acme").values())


async def test_claims_begin_a_second_before_the_first_job_of_their_type_that_waits_also_for_a_slot(
    ahead: Ahead, due: DueTenants, tenant_conn: Connection
) -> None:
    due.stand_aside(Turn("acme", {"other"}, Reason.RING), {"other"})
    for job_type, ago_s, priority in (("task", 100, 5), ("other", 200, -5), ("task", 150, 0)):
        run_at = datetime.now(UTC) - timedelta(seconds=ago_s)
        await jobs.enqueue(tenant_conn, job_type, {}, priority=priority, run_at=run_at)

    await ahead.look("acme", tenant_conn)

    now = await now_s(tenant_conn)
    assert {name: round(now - front) for name, front in ahead.front("acme").items()} == {"task": 151, "other": 201}


async def test_a_short_look_leaves_the_front_of_what_waits_for_a_slot(
    ahead: Ahead, due: DueTenants, tenant_conn: Connection
) -> None:
    await jobs.enqueue(tenant_conn, "other", {}, run_at=datetime.now(UTC) - timedelta(seconds=200))
    await ahead.look("acme", tenant_conn)
    due.stand_aside(Turn("acme", {"other"}, Reason.RING), {"other"})
    before = ahead.front("acme")

    await ahead.look("acme", tenant_conn)

    assert ahead.front("acme")["other"] == before["other"]


async def test_claims_pass_over_nothing_after_a_look_that_failed(ahead: Ahead, tenant_dsn: str) -> None:
    conn = await connect(tenant_dsn, application_name="tests")
    await ahead.look("acme", conn)
    await conn.close()

    with pytest.raises(DATABASE_ERRORS):
        await ahead.look("acme", conn)

    assert ahead.front("acme") == {}


async def test_a_look_right_after_another_reads_only_what_came_since_and_one_that_reads_all_follows_within_a_second(
    ahead: Ahead, due: DueTenants, tenant_conn: Connection
) -> None:
    await ahead.look("acme", tenant_conn)
    started = time.monotonic()
    await jobs.enqueue(tenant_conn, "task", {}, run_at=datetime.now(UTC) - timedelta(hours=1))

    short = await ahead.look("acme", tenant_conn)
    turn = await asyncio.wait_for(due.take(), 10)
    waited_s = time.monotonic() - started
    whole = await ahead.look("acme", tenant_conn)

    assert turn is not None
    assert (short, whole) == (False, True)
    assert 0.5 < waited_s < 3


async def test_a_look_that_comes_soon_enough_reads_all_by_itself_and_needs_no_turn_of_its_own_for_that(
    ahead: Ahead, due: DueTenants, tenant_conn: Connection
) -> None:
    async def half_a_second_has_passed() -> bool:
        return time.monotonic() - started > 0.55

    await ahead.look("acme", tenant_conn)
    started = time.monotonic()
    await ahead.look("acme", tenant_conn)  # a short one: a turn for a whole one is due a second after the first
    await jobs.enqueue(tenant_conn, "task", {}, run_at=datetime.now(UTC) + timedelta(hours=1))
    await eventually(half_a_second_has_passed)

    await ahead.look("acme", tenant_conn)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(due.take(), 1.0)


async def test_a_tenant_has_another_turn_at_once_for_what_its_claim_has_passed_over_and_only_one(
    make_ahead: Callable[[float], Ahead], due: DueTenants, tenant_conn: Connection
) -> None:
    ahead = make_ahead(0.0)  # so that every look reads all
    await ahead.look("acme", tenant_conn)
    await jobs.enqueue(tenant_conn, "task", {}, run_at=datetime.now(UTC) - timedelta(hours=1))

    in_line = []
    for _ in range(2):
        await ahead.look("acme", tenant_conn)
        in_line.append(len(due))
        if turn := await due.take() if len(due) else None:
            due.finish(turn)

    assert in_line == [1, 0]
