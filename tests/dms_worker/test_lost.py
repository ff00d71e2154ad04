"""Jobs of lost workers: those without an attempt left are given up, each with its hook, unless the database fails."""

from uuid import UUID

import pytest
from structlog.testing import capture_logs

from dms_worker.job_types import DeadJob, JobContext
from dms_worker.lost import reclaim_lost
from nexarch import jobs
from nexarch.db import Connection, connect
from support.acme_jobs import task

pytestmark = pytest.mark.database

STALE_S = 60.0


async def never(_ctx: JobContext) -> None:
    raise AssertionError("no job is run here")


class Hook:
    """An `on_dead` that runs a statement at one of its calls, and records all of them."""

    def __init__(self, statement: str, *, at_call: int) -> None:
        self.calls: list[UUID] = []
        self._statement = statement
        self._at_call = at_call

    async def __call__(self, dead: DeadJob, _error: jobs.JobError) -> None:
        self.calls.append(dead.job.id)
        if len(self.calls) == self._at_call:
            await dead.conn.execute(self._statement)


async def lost_at_their_last_attempt(conn: Connection, number: int) -> list[UUID]:
    """So many jobs whose worker died, in the order in which it was last heard of them."""
    ids = [await jobs.enqueue(conn, "task", {}, max_attempts=1) for _ in range(number)]
    await jobs.claim(conn, "dead", {"task": number})
    for place, job_id in enumerate(ids):
        sql = "UPDATE processing_jobs SET locked_at = now() - make_interval(hours => $2) WHERE id = $1"
        await conn.execute(sql, job_id, number - place)
    return ids


async def test_a_hook_that_fails_even_by_its_own_statement_keeps_back_only_its_own_job(tenant_conn: Connection) -> None:
    ids = await lost_at_their_last_attempt(tenant_conn, 3)
    hook = Hook("SELECT 1 / 0", at_call=1)

    taken = await reclaim_lost(tenant_conn, "acme", [task(never, on_dead=hook)], STALE_S)

    assert (taken.jobs, taken.dead["task"]) == (2, 2)
    assert hook.calls == ids
    statuses = [(await jobs.get_job(tenant_conn, job_id)).status for job_id in ids]
    assert statuses == ["processing", "dead_letter", "dead_letter"]


async def test_a_connection_that_breaks_is_told_once_and_what_was_done_before_counts(
    conn: Connection, tenant_dsn: str
) -> None:
    ids = await lost_at_their_last_attempt(conn, 4)
    hook = Hook("SELECT pg_terminate_backend(pg_backend_pid())", at_call=2)
    own = await connect(tenant_dsn, application_name="tests-breaking")

    with capture_logs() as lines:
        taken = await reclaim_lost(own, "acme", [task(never, on_dead=hook)], STALE_S)

    assert (taken.jobs, taken.dead["task"]) == (1, 1)
    assert [line["event"] for line in lines] == ["lost jobs not given up", "jobs of lost workers taken back"]
    assert hook.calls == ids[:2]
    statuses = [(await jobs.get_job(conn, job_id)).status for job_id in ids]
    assert statuses == ["dead_letter", "processing", "processing", "processing"]
