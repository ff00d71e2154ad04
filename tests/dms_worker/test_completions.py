"""The successful ends: each is written once, whoever writes it, and no slot is kept for what is no longer ours."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from uuid import UUID

import pytest

from dms_worker.completions import Completions
from dms_worker.held import HeldJob, Visit
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Pool, open_pool
from support import database
from support.waiting import eventually

pytestmark = pytest.mark.database


class Settled:
    """What was settled: the batches, and what of them was lost."""

    def __init__(self) -> None:
        self.batches: list[list[HeldJob]] = []
        self.lost: set[UUID] = set()

    def __call__(self, batch: Sequence[HeldJob], lost: set[UUID]) -> None:
        self.batches.append(list(batch))
        self.lost |= lost

    async def all_of(self, number: int) -> None:
        """Wait until so many jobs are settled."""

        async def are_settled() -> bool:
            return sum(map(len, self.batches)) >= number

        await eventually(are_settled)


@pytest.fixture
async def pool(tenant_dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(tenant_dsn, max_size=2, application_name="tests") as pool:
        yield pool


@pytest.fixture
def settled() -> Settled:
    return Settled()


@pytest.fixture
async def completions(settled: Settled) -> AsyncIterator[Completions]:
    completions = Completions(settled)
    yield completions
    await completions.close()


async def nothing(_ctx: JobContext) -> None:
    """A handler that is never called here."""


async def claimed(pool: Pool, number: int, *, written_by: Pool | None = None) -> list[HeldJob]:
    """So many held jobs, whose ends go to another pool if one is given."""
    async with pool.acquire() as conn:
        await jobs.enqueue_many(conn, [jobs.NewJob("task", {}) for _ in range(number)])
        rows = await jobs.claim(conn, "w1", {"task": number})
    visit = Visit("acme", written_by or pool, nullcontext(pool), users=number + 1)
    job_type = JobType(name="task", handler=nothing)
    return [HeldJob(JobContext("acme", row, pool), job_type, visit, time.monotonic()) for row in rows]


async def statuses(pool: Pool) -> set[str]:
    async with pool.acquire() as conn:
        return {row["status"] for row in await conn.fetch("SELECT DISTINCT status FROM processing_jobs")}


async def test_more_jobs_than_one_statement_takes_are_all_written_when_they_finish_at_once(
    completions: Completions, settled: Settled, pool: Pool
) -> None:
    held_jobs = await claimed(pool, 2100)

    for held in held_jobs:
        completions.add(held)
    await settled.all_of(2100)

    assert [len(batch) for batch in settled.batches] == [1000, 1000, 100]
    assert settled.lost == set()
    assert await statuses(pool) == {"succeeded"}


async def test_a_turn_takes_no_more_than_one_statement_holds_and_the_rest_is_written_after_it(
    completions: Completions, settled: Settled, pool: Pool
) -> None:
    held_jobs = await claimed(pool, 1001)
    completions.turn_begins("acme")
    for held in held_jobs:
        completions.add(held)

    taken = completions.take("acme")
    completions.turn_ends("acme")
    await settled.all_of(1)

    assert taken == held_jobs[:1000]
    assert settled.batches == [held_jobs[1000:]]


async def test_what_a_turn_took_and_could_not_write_is_written_though_the_turn_has_ended(
    completions: Completions, settled: Settled, pool: Pool
) -> None:
    (held,) = await claimed(pool, 1)
    completions.turn_begins("acme")
    completions.add(held)
    taken = completions.take("acme")
    completions.turn_ends("acme")

    completions.untake("acme", taken)
    await settled.all_of(1)

    assert await statuses(pool) == {"succeeded"}


async def test_what_the_heartbeat_gave_up_while_its_end_could_not_be_written_frees_its_slot(
    completions: Completions, settled: Settled, pool: Pool
) -> None:
    nowhere = f"postgresql://nobody@127.0.0.1:{database.free_port()}/nowhere"
    async with open_pool(nowhere, max_size=1, application_name="tests") as dead:
        given_up, kept = await claimed(pool, 2, written_by=dead)
        given_up.cancel("lost")

        for held in (kept, given_up):
            completions.add(held)
        await settled.all_of(1)

        assert settled.batches[0] == [given_up]
        assert settled.lost == {given_up.job.id}
        await completions.close()  # the other is tried again until then
    assert [held for batch in settled.batches for held in batch] == [given_up]
