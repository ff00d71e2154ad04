"""The worker does every job, once where it can, soon, whoever dies."""

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.job_types import DeadJob, JobContext, JobType, PermanentError
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import JobError, NewJob, RetryPolicy
from support import database
from support.database import Cluster
from support.proxy import proxied
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database

AT_ONCE = RetryPolicy(base_s=0.0)


@pytest.fixture
async def conn(tenant_dsn: str) -> AsyncIterator[Connection]:
    """A producer's session in the tenant's database."""
    conn = await connect(tenant_dsn, application_name="tests")
    yield conn
    await conn.close()


@pytest.fixture
async def bell(bus_dsn: str) -> AsyncIterator[Doorbell]:
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        yield bell


class Entries:
    """A handler that records which jobs entered it and when."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[tuple[UUID, float]] = asyncio.Queue()

    async def __call__(self, ctx: JobContext) -> None:
        self.jobs.put_nowait((ctx.job.id, time.monotonic()))

    async def next(self, within_s: float = 10.0) -> UUID:
        return (await asyncio.wait_for(self.jobs.get(), within_s))[0]


async def status_is(conn: Connection, job_id: UUID, status: str, within_s: float = 15.0) -> jobs.Job:
    async def reached() -> bool:
        return (await jobs.get_job(conn, job_id)).status == status

    await eventually(reached, within_s=within_s)
    return await jobs.get_job(conn, job_id)


async def enqueue_and_ring(conn: Connection, bell: Doorbell, payload: dict[str, Any] | None = None) -> UUID:
    job_id = await jobs.enqueue(conn, "task", payload or {})
    bell.ring("acme")
    return job_id


def task(handler: Callable[[JobContext], Awaitable[None]], **more: Any) -> JobType:  # noqa: ANN401 - the other fields of JobType
    return JobType(name="task", handler=handler, **more)


async def test_a_rung_job_is_done_and_its_row_says_so(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        job_id = await enqueue_and_ring(conn, bell)

        assert await entries.next() == job_id
        row = await status_is(conn, job_id, "succeeded")

    assert row.attempts == 1


async def test_jobs_that_were_there_before_the_worker_are_found_without_a_ring(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    entries = Entries()

    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        assert await entries.next() == job_id


async def test_a_job_whose_ring_was_lost_is_found_by_the_sweep(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries, registry = Entries(), CollectorRegistry()
    async with working(
        [task(entries)], {"acme": tenant_dsn}, bus_dsn, registry=registry, sweep_interval_s=0.5, armed=True
    ):
        # After a rung one, so that the look at the start is over.
        await status_is(conn, await enqueue_and_ring(conn, bell), "succeeded")
        await entries.next()

        lost = await jobs.enqueue(conn, "task", {})

        assert await entries.next(within_s=3) == lost
        assert (registry.get_sample_value("nexarch_jobs_found_total", {"by": "sweep"}) or 0) >= 1


async def test_ping_pong_a_job_enqueued_as_the_handler_is_entered_never_waits(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    longest: list[float] = []  # of each round; a machine that is busy with other things spoils one, not all
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        await enqueue_and_ring(conn, bell)
        await entries.next()
        while len(longest) < 3 and min(longest, default=1.0) >= 0.2:
            waits: list[float] = []
            for _ in range(300):
                await jobs.enqueue(conn, "task", {})
                committed = time.monotonic()
                bell.ring("acme")
                _, entered = await asyncio.wait_for(entries.jobs.get(), 10)
                waits.append(entered - committed)
            longest.append(max(waits))

    assert min(longest) < 0.2
    assert max(longest) < 2  # a ring that is overlooked costs more


async def test_a_failed_job_is_tried_again_when_it_is_due_without_any_ring(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    attempts: list[int] = []

    async def fail_once(ctx: JobContext) -> None:
        attempts.append(ctx.job.attempts)
        if ctx.job.attempts == 1:
            raise RuntimeError("not this time")

    job_type = task(fail_once, retry=RetryPolicy(base_s=0.3, jitter=0))
    job_id = await jobs.enqueue(conn, "task", {})
    async with working([job_type], {"acme": tenant_dsn}, bus_dsn, ring=lambda _tenant: None):
        row = await status_is(conn, job_id, "succeeded")

    assert attempts == [1, 2]
    assert row.last_error is not None
    assert row.last_error["code"] == "handler-error"
    assert "not this time" in row.last_error["traceback"]


async def test_a_delayed_job_starts_on_time_without_polling(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        committed = time.monotonic()
        await jobs.enqueue(conn, "task", {}, delay_s=0.5)
        bell.ring("acme")

        _, entered = await asyncio.wait_for(entries.jobs.get(), 10)

    assert 0.45 < entered - committed < 1.5


async def test_a_permanent_error_is_dead_at_once_and_its_hook_runs_in_the_same_transaction(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    async def refuse(_ctx: JobContext) -> None:
        raise PermanentError("bad-file", "The file is no PDF.\x00")

    async def on_dead(dead: DeadJob, error: JobError) -> None:
        assert dead.conn.is_in_transaction()
        await jobs.enqueue(dead.conn, "aftermath", {"of": str(dead.job.id), "code": error.code})

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(refuse, on_dead=on_dead)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.attempts == 1
    assert row.last_error is not None
    assert row.last_error["detail"] == "The file is no PDF.\ufffd"
    (after,) = await jobs.claim(conn, "tests", {"aftermath": 10})
    assert after.payload == {"of": str(job_id), "code": "bad-file"}


async def test_attempts_run_out(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    async def fail(_ctx: JobContext) -> None:
        raise RuntimeError("never")

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=3)
    async with working([task(fail, retry=AT_ONCE)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.attempts == 3


async def test_a_hook_that_fails_leaves_the_job_to_be_tried_again(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    calls = 0

    async def refuse(_ctx: JobContext) -> None:
        raise PermanentError("bad-file", "The file is no PDF.")

    async def on_dead(_dead: DeadJob, _error: JobError) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyError("a fault in the hook")

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(refuse, on_dead=on_dead)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):
        await status_is(conn, job_id, "dead_letter")

    assert calls == 2


async def test_a_handler_that_passes_its_deadline_is_cancelled(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    async def hang(_ctx: JobContext) -> None:
        await asyncio.Event().wait()

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([task(hang, deadline_s=0.1)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.last_error is not None
    assert row.last_error["code"] == "deadline-exceeded"


async def test_a_job_longer_than_the_stale_time_runs_once_and_shows_its_progress(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = 0
    go_on = asyncio.Event()

    async def long(ctx: JobContext) -> None:
        nonlocal entries
        entries += 1
        ctx.progress(40)
        await go_on.wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with (
        working([task(long)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6),
        working([task(long)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6),
    ):
        claimed = (await status_is(conn, job_id, "processing")).locked_at
        assert claimed is not None

        async def three_stale_times_later() -> bool:
            row = await jobs.get_job(conn, job_id)
            return row.locked_at is not None and (row.locked_at - claimed).total_seconds() > 1.8

        await eventually(three_stale_times_later)
        during = await jobs.get_job(conn, job_id)
        go_on.set()
        after = await status_is(conn, job_id, "succeeded")

    assert entries == 1
    assert (during.progress, after.progress, after.attempts) == (40, 100, 1)


async def test_a_handler_is_cancelled_when_its_lock_is_lost_and_its_end_changes_nothing(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    cancelled = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(hang)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):
        await status_is(conn, job_id, "processing")
        # Another worker has reclaimed and claimed it.
        await conn.execute("UPDATE processing_jobs SET lease = lease + 1, locked_by = 'other', attempts = 2")

        await asyncio.wait_for(cancelled.wait(), 5)

    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.locked_by) == ("processing", "other")


async def test_a_database_that_is_away_for_less_than_the_stale_time_costs_no_job(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    go_on, entered = asyncio.Event(), asyncio.Event()

    async def wait(_ctx: JobContext) -> None:
        entered.set()
        await go_on.wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with proxied(tenant_dsn) as (dsn, proxy), working([task(wait)], {"acme": dsn}, bus_dsn, stale_after_s=60):
        await entered.wait()
        await proxy.refuse()
        proxy.cut()
        go_on.set()
        await asyncio.sleep(0.3)

        await proxy.accept()

        row = await status_is(conn, job_id, "succeeded")
    assert row.attempts == 1


async def test_one_dead_database_does_not_hold_up_the_other_tenants(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, unused_tcp_port: int
) -> None:
    entries = Entries()
    async with proxied(tenant_dsn) as (silent_dsn, proxy):
        dead = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/nothing"
        tenants = {"acme": tenant_dsn, "dead": dead, "silent": silent_dsn}
        async with working([task(entries)], tenants, bus_dsn, turns_at_once=3, turn_timeout_s=1.0):
            proxy.swallow_everything()
            for _ in range(10):
                bell.ring("dead")
                bell.ring("silent")
                await enqueue_and_ring(conn, bell)

                await entries.next(within_s=1.0)


async def test_a_ring_for_a_tenant_that_does_not_exist_is_ignored(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        bell.ring("nobody")
        bell.ring("../../etc")

        job_id = await enqueue_and_ring(conn, bell)

        assert await entries.next() == job_id


async def test_a_worker_whose_sessions_are_all_terminated_goes_on(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    entries = Entries()
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        await enqueue_and_ring(conn, bell)
        await entries.next()
        for _ in range(3):
            await superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name IN ('tests-worker', 'nexarch-worker-bus')"
            )

            job_id = await enqueue_and_ring(conn, bell)

            assert await entries.next(within_s=5) == job_id
            await status_is(conn, job_id, "succeeded")
    await superuser.close()


async def test_a_tenant_with_a_thousand_jobs_does_not_delay_the_first_job_of_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    done: list[str] = []
    quiet = asyncio.Event()

    async def note(ctx: JobContext) -> None:
        await asyncio.sleep(0.01)
        done.append(ctx.tenant)
        if ctx.tenant == "quiet":
            quiet.set()

    async with database.own_tenant(cluster) as other:
        quiet_conn = await connect(other.dsn, application_name="tests")
        tenants = {"busy": tenant_dsn, "quiet": other.dsn}
        async with working([task(note)], tenants, bus_dsn, concurrency=4, grace_s=0.1):
            await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(1000)])
            bell.ring("busy")

            async def the_busy_one_is_under_way() -> bool:
                return len(done) > 20

            await eventually(the_busy_one_is_under_way)
            before = len(done)
            await jobs.enqueue(quiet_conn, "task", {})
            bell.ring("quiet")
            await asyncio.wait_for(quiet.wait(), 10)

        await quiet_conn.close()
    assert done.index("quiet") - before < 50


async def test_one_turn_at_a_time_goes_round_though_the_first_tenant_has_jobs_and_slots_left(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    order: list[str] = []
    under_way, quiet = asyncio.Event(), asyncio.Event()

    async def note(ctx: JobContext) -> None:
        order.append(ctx.tenant)
        (quiet if ctx.tenant == "quiet" else under_way).set()

    async with database.own_tenant(cluster) as other:
        quiet_conn = await connect(other.dsn, application_name="tests")
        await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(10_000)])
        async with working(
            [task(note, concurrency=20_000)],
            {"busy": tenant_dsn, "quiet": other.dsn},
            bus_dsn,
            concurrency=20_000,
            batch=10,
            turns_at_once=1,
        ):
            await asyncio.wait_for(under_way.wait(), 20)
            await jobs.enqueue(quiet_conn, "task", {})
            bell.ring("quiet")
            await asyncio.wait_for(quiet.wait(), 20)

        await quiet_conn.close()
    assert order.index("quiet") < 5_000


async def test_a_freed_slot_is_used_at_once(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(300)])
    async with working([task(Entries(), concurrency=1)], {"acme": tenant_dsn}, bus_dsn):
        # A look every 50 ms, which is the net below this, would take 15 s.
        await all_done(conn, within_s=10)


async def test_never_more_jobs_run_at_once_than_there_are_slots(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    running = {"task": 0, "other": 0}
    most = {"task": 0, "other": 0, "all": 0}

    async def count(ctx: JobContext) -> None:
        name = ctx.job.job_type
        running[name] += 1
        most[name] = max(most[name], running[name])
        most["all"] = max(most["all"], sum(running.values()))
        await asyncio.sleep(0.005)
        running[name] -= 1

    await jobs.enqueue_many(conn, [NewJob(name, {}) for name in ("task", "other") for _ in range(60)])
    types = [task(count, concurrency=2), JobType(name="other", handler=count, concurrency=5)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, concurrency=6):
        await all_done(conn)

    assert most["task"] == 2
    assert most["other"] <= 5
    assert most["all"] == 6


async def all_done(conn: Connection, within_s: float = 30.0) -> None:
    async def nothing_left() -> bool:
        return not await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status <> 'succeeded'")

    await eventually(nothing_left, within_s=within_s)


async def test_a_full_job_type_does_not_hold_up_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    go_on, entries = asyncio.Event(), Entries()

    async def wait(_ctx: JobContext) -> None:
        await go_on.wait()

    await jobs.enqueue_many(conn, [NewJob("slow", {}) for _ in range(5)])
    types = [task(entries), JobType(name="slow", handler=wait, concurrency=1)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn):
        for _ in range(3):
            job_id = await enqueue_and_ring(conn, bell)
            assert await entries.next() == job_id
        go_on.set()

        await all_done(conn)


async def test_a_stop_gives_back_what_does_not_end_in_time_and_claims_nothing_more(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entered = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(hang)], {"acme": tenant_dsn}, bus_dsn, grace_s=0.3) as worker:
        await entered.wait()
        stopping = asyncio.create_task(worker.stop())
        late = await enqueue_and_ring(conn, bell)
        started = time.monotonic()
        await stopping

    assert time.monotonic() - started < 2
    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.attempts, row.locked_by) == ("pending", 0, None)
    assert (await jobs.get_job(conn, late)).attempts == 0


async def test_a_stop_lets_running_jobs_finish(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    entered = asyncio.Event()

    async def slow(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.sleep(0.3)

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(slow)], {"acme": tenant_dsn}, bus_dsn) as worker:
        await entered.wait()
        await worker.stop()

        assert (await jobs.get_job(conn, job_id)).status == "succeeded"


async def test_a_stop_ends_in_time_though_the_database_is_gone(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    entered = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    await jobs.enqueue(conn, "task", {})
    async with (
        proxied(tenant_dsn) as (dsn, proxy),
        working([task(hang)], {"acme": dsn}, bus_dsn, grace_s=0.3, turn_timeout_s=0.5) as worker,
    ):
        await entered.wait()
        proxy.swallow_everything()
        started = time.monotonic()

        await worker.stop()

        assert time.monotonic() - started < 3


async def test_what_the_worker_does_is_counted(conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str) -> None:
    registry, entries = CollectorRegistry(), Entries()
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn, registry=registry):
        job_id = await enqueue_and_ring(conn, bell)
        await status_is(conn, job_id, "succeeded")

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, labels)

        async def it_is_settled() -> bool:
            connected = value("nexarch_jobs_listener_connected") == 1
            return connected and value("nexarch_jobs_running", job_type="task") == 0

        await eventually(it_is_settled)
        assert value("nexarch_jobs_claimed_total", job_type="task") == 1
        assert value("nexarch_jobs_finished_total", job_type="task", outcome="succeeded") == 1
        assert value("nexarch_jobs_wait_seconds_count", job_type="task") == 1
        assert value("nexarch_jobs_run_seconds_count", job_type="task") == 1


@asynccontextmanager
async def worker_process(bus_dsn: str, tenant_dsn: str, stale_after_s: float) -> AsyncIterator[Process]:
    """A worker in a process of its own, that has started."""
    tests = Path(__file__).parents[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(tests / "support" / "worker_process.py"), bus_dsn, tenant_dsn, str(stale_after_s),
        stdout=PIPE, env={"PYTHONPATH": str(tests)},
    )  # fmt: skip
    try:
        assert await line(process) == "ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: Process, within_s: float = 20.0) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), within_s)).decode().strip()


async def test_the_job_of_a_killed_worker_is_finished_by_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    async with worker_process(bus_dsn, tenant_dsn, 1.0) as victim:
        job_id = await jobs.enqueue(conn, "note", {"seconds": 3600})
        bell.ring("acme")
        assert await line(victim) == f"{job_id} 1"
        await conn.execute("""UPDATE processing_jobs SET payload = '{"seconds": 0}'""")
        async with worker_process(bus_dsn, tenant_dsn, 1.0) as heir:
            victim.kill()

            assert await line(heir) == f"{job_id} 2"
            row = await status_is(conn, job_id, "succeeded")

    assert row.attempts == 2


async def test_sigterm_in_the_middle_of_a_job_burns_no_attempt(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    job_id = await jobs.enqueue(conn, "note", {"seconds": 3600})
    for _ in range(3):
        async with worker_process(bus_dsn, tenant_dsn, 60.0) as process:
            assert await line(process) == f"{job_id} 1"
            process.send_signal(signal.SIGTERM)

            assert await asyncio.wait_for(process.wait(), 10) == 0
        assert (await jobs.get_job(conn, job_id)).attempts == 0


async def test_a_job_that_kills_its_worker_each_time_is_a_dead_letter(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    job_id = await jobs.enqueue(conn, "die", {}, max_attempts=2)
    for _ in range(2):
        async with worker_process(bus_dsn, tenant_dsn, 0.5) as process:
            await asyncio.wait_for(process.wait(), 10)
        assert process.returncode == 9

    async def on_dead(dead: DeadJob, error: JobError) -> None:
        await jobs.enqueue(dead.conn, "aftermath", {"code": error.code})

    survivor = JobType(name="die", handler=Entries(), on_dead=on_dead)
    async with working([survivor], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.5):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.attempts == 2
    assert row.last_error is not None
    assert row.last_error["code"] == "worker-lost"
    (after,) = await jobs.claim(conn, "tests", {"aftermath": 10})
    assert after.payload == {"code": "worker-lost"}
