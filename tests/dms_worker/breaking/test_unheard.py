"""Rings are lost or ring for nothing, clocks are wrong, payloads are odd: the jobs in the tables are done, on time."""

import asyncio
import random
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.due import DueTenants
from dms_worker.job_types import JobContext, JobType
from dms_worker.sweep import KnownTenant, Sweep
from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.ledger import Ledger
from support.nursery import nursery
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


class Entries:
    """A handler that keeps the payloads it was given and when."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.at: dict[str, float] = {}

    async def __call__(self, ctx: JobContext) -> None:
        self.at[str(ctx.job.id)] = time.monotonic()
        self.payloads.append(ctx.job.payload)


async def statuses(conn: Connection) -> dict[str, int]:
    sql = "SELECT status, count(*) AS number FROM processing_jobs GROUP BY status"
    return {row["status"]: row["number"] for row in await conn.fetch(sql)}


async def test_without_any_ring_all_jobs_are_begun_within_one_sweep(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entries, sweep_s, committed = Entries(), 3.0, {}
    async with working(
        [JobType(name="task", handler=entries)],
        {"acme": tenant_dsn},
        bus_dsn,
        ring=lambda _tenant: None,
        armed=True,
        sweep_interval_s=sweep_s,
    ):
        for _ in range(30):
            job_id = await jobs.enqueue(conn, "task", {})
            committed[str(job_id)] = time.monotonic()
            await asyncio.sleep(random.uniform(0, 0.15))

        async def all_are_done() -> bool:
            return await statuses(conn) == {"succeeded": 30}

        await eventually(all_are_done)

    assert (
        max(entries.at[job_id] - at for job_id, at in committed.items()) < 1.9 * sweep_s
    )  # two sweeps would be twice as long


async def test_a_tenant_armed_just_after_a_sweep_is_looked_at_by_the_next_one() -> None:
    sweep_s, armed = 3.0, asyncio.Event()
    due = DueTenants(["task"])
    # Of all these some have their place at the end of the sweep's interval.
    slugs = {f"tenant_{number}" for number in range(50)}

    async def directory() -> list[KnownTenant]:
        return [KnownTenant(slug, 0.0 if armed.is_set() else None) for slug in slugs]

    sweep = asyncio.create_task(Sweep(directory, due, interval_s=sweep_s).run())
    looked_at: set[str] = set()
    for _ in slugs:  # the look everywhere at the start
        turn = await asyncio.wait_for(due.take(), 5)
        assert turn is not None
        due.finish(turn)
    armed.set()
    started = time.monotonic()
    while looked_at != slugs:
        turn = await asyncio.wait_for(due.take(), 5)
        assert turn is not None
        due.finish(turn)
        looked_at.add(turn.tenant)

    assert time.monotonic() - started < 1.9 * sweep_s  # two sweeps would be twice as long
    sweep.cancel()
    due.close()


async def test_a_ring_for_an_enqueue_that_was_rolled_back_does_nothing(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries, registry = Entries(), CollectorRegistry()
    types = [JobType(name="task", handler=entries)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, registry=registry):
        for _ in range(20):
            transaction = conn.transaction()
            await transaction.start()
            await jobs.enqueue(conn, "task", {"real": False}, idempotency_key="once")
            bell.ring("acme")  # too early, and for nothing
            await transaction.rollback()
            bell.ring("acme")
        await jobs.enqueue(conn, "task", {"real": True}, idempotency_key="once")
        bell.ring("acme")

        async def the_real_one_is_done() -> bool:
            return await statuses(conn) == {"succeeded": 1}

        await eventually(the_real_one_is_done)

    assert entries.payloads == [{"real": True}]
    assert registry.get_sample_value("nexarch_jobs_claimed_total", {"job_type": "task"}) == 1
    assert registry.get_sample_value("nexarch_jobs_failed_turns_total") == 0


async def test_a_worker_whose_clock_is_an_hour_off_runs_nothing_early_late_or_twice(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=1.0, concurrency=20) as workers:
        for hours in (-1, 0, 1):
            await workers.start(clock_off_by_s=hours * 3600.0)
        longer_than_the_stale_time = [NewJob("record", {"seconds": 2.0}) for _ in range(12)]
        later = [NewJob("record", {}, delay_s=1.0) for _ in range(30)]
        tried_again = [NewJob("record", {"failures": 2}) for _ in range(30)]
        await jobs.enqueue_many(conn, longer_than_the_stale_time + later + tried_again)
        bell.ring("acme")
        await ledger.all_done(within_s=10)

    early_or_late = """
        SELECT count(*)
        FROM processing_jobs AS job
        JOIN entered ON job_id = job.id
        WHERE attempts = 1 AND NOT entered.at - available_at BETWEEN '0' AND '2 s'
    """
    assert await ledger.conn.fetchval(early_or_late) == 0
    assert await conn.fetchval("SELECT array_agg(DISTINCT attempts ORDER BY attempts) FROM processing_jobs") == [1, 3]
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE lease <> attempts") == 0
    assert await ledger.faults() == []


ODD_TEXTS = [
    "Übergrößenträger — naïve ﬁ ẞ",
    "e\u0301 is not \u00e9",
    "\u202eright to left\u202c \u2066isolated\u2069",
    "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 \U0010ffff \ufffe \uffff",
    "line\u2028separator, \x01\x1f\x7f\x85 controls, \ufeff a mark",
    "quotes \" ' \\ \\u0000 $1 $$ ; -- {jobs} %s",
    "x" * 100_000,
]


async def test_odd_text_reaches_the_handler_as_it_was_and_nul_is_refused_without_harm(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    odd: dict[str, Any] = {text[:50]: text for text in ODD_TEXTS}
    odd |= {"numbers": [0, -1, 2**60, 10**40, 0.1, 2.5e-7], "": {"": [None, True, {}, []]}}
    async with working([JobType(name="task", handler=entries)], {"acme": tenant_dsn}, bus_dsn):
        async with conn.transaction():
            await jobs.enqueue(conn, "task", odd)
            with pytest.raises(jobs.JobRefused):
                await jobs.enqueue(conn, "task", {"text": "before\x00after"})
            with pytest.raises(jobs.JobRefused):
                await jobs.enqueue(conn, "task", {"\ud800": "half a pair"})
        bell.ring("acme")

        async def it_is_done() -> bool:
            return await statuses(conn) == {"succeeded": 1}

        await eventually(it_is_done)

    assert entries.payloads == [odd]


async def test_one_payload_that_cannot_be_read_spoils_none_of_the_batch(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    # JSON that Postgres can hold and Python cannot; no producer of ours can write it.
    deep = '{"deep": ' + "[" * 5000 + "]" * 5000 + "}"
    await jobs.enqueue_many(conn, [NewJob("task", {"number": number}) for number in range(5)])
    await conn.execute(
        "INSERT INTO processing_jobs (job_type, payload, max_attempts) VALUES ('task', $1::text::jsonb, 1)", deep
    )
    await jobs.enqueue_many(conn, [NewJob("task", {"number": number}) for number in range(5, 9)])
    async with working([JobType(name="task", handler=entries)], {"acme": tenant_dsn}, bus_dsn):

        async def all_have_ended() -> bool:
            return await statuses(conn) == {"succeeded": 9, "dead_letter": 1}

        await eventually(all_have_ended)

    assert sorted(payload["number"] for payload in entries.payloads) == list(range(9))


async def test_an_error_with_text_that_postgres_cannot_hold_is_stored_and_the_job_goes_on(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    async def fail(_ctx: JobContext) -> None:
        raise RuntimeError("NUL \x00, half a pair \ud800, " + "long " * 10_000)

    await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([JobType(name="task", handler=fail)], {"acme": tenant_dsn}, bus_dsn):

        async def it_is_dead() -> bool:
            return await statuses(conn) == {"dead_letter": 1}

        await eventually(it_is_dead)

    detail = await conn.fetchval("SELECT last_error ->> 'detail' FROM processing_jobs")
    assert detail.startswith("RuntimeError: NUL \ufffd, half a pair \ufffd, long")
