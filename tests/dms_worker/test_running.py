"""How an attempt ends: what a handler raises, how long it may take, and what its hook says to that."""

import asyncio
import socket
import time
from itertools import pairwise

import pytest

from dms_worker.job_types import DeadJob, JobContext, PermanentError, Snooze
from nexarch import jobs
from nexarch.core_client import CoreApiAway
from nexarch.db import Connection
from nexarch.jobs import JobError, RetryPolicy
from nexarch.storage import StorageAway
from support.acme_jobs import status_is, task
from support.working import working

pytestmark = pytest.mark.database

AT_ONCE = RetryPolicy(base_s=0.0)


async def test_a_snoozed_job_comes_back_as_often_as_it_likes_and_no_attempt_counts(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered: list[float] = []

    async def snooze(_ctx: JobContext) -> None:
        entered.append(time.monotonic())
        if len(entered) < 4:
            raise Snooze(0.2)

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([task(snooze)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "succeeded")

    assert row.attempts == 1
    assert len(entered) == 4
    assert min(later - earlier for earlier, later in pairwise(entered)) > 0.19


@pytest.mark.parametrize(
    "away",
    [
        StorageAway("away"),
        CoreApiAway("away"),
        ConnectionRefusedError("the database"),
        socket.gaierror(socket.EAI_NONAME, "its container does not run"),
        OSError("Multiple exceptions: [Errno 111] ... ('::1', ...), [Errno 111] ..."),
    ],
    ids=repr,
)
async def test_a_job_is_put_off_while_something_is_away_that_every_job_needs_and_no_attempt_counts(
    conn: Connection, bus_dsn: str, tenant_dsn: str, away: Exception
) -> None:
    entered: list[float] = []

    async def needs_it(_ctx: JobContext) -> None:
        entered.append(time.monotonic())
        if len(entered) < 3:
            raise away

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([task(needs_it)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "succeeded")

    assert (row.attempts, len(entered)) == (1, 3)
    first, second = (later - earlier for earlier, later in pairwise(entered))
    assert first > 0.4  # half a second to one
    assert second > 0.9  # one to two


async def test_a_job_that_was_put_off_for_a_day_uses_its_attempts_up(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    async def needs_it(_ctx: JobContext) -> None:
        raise StorageAway("this object cannot be read")

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    await conn.execute("UPDATE processing_jobs SET lease = 1500")
    async with working([task(needs_it)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.last_error is not None
    assert row.last_error["code"] == "storage-away"


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
