"""Jobs of the tenant `acme`, as the worker's tests add them and see them end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from support.waiting import eventually


def task(handler: Callable[[JobContext], Awaitable[None]], **more: Any) -> JobType:  # noqa: ANN401 - the other fields of JobType
    """The job type `task` with this handler."""
    return JobType(name="task", handler=handler, **more)


class Entries:
    """A handler that records which jobs entered it and when."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[tuple[UUID, float]] = asyncio.Queue()

    async def __call__(self, ctx: JobContext) -> None:
        self.jobs.put_nowait((ctx.job.id, time.monotonic()))

    async def next(self, within_s: float = 10.0) -> UUID:
        """The job that has entered next."""
        return (await asyncio.wait_for(self.jobs.get(), within_s))[0]


async def enqueue_and_ring(conn: Connection, bell: Doorbell, payload: dict[str, Any] | None = None) -> UUID:
    """Add a job, commit it and ring."""
    job_id = await jobs.enqueue(conn, "task", payload or {})
    bell.ring("acme")
    return job_id


async def status_is(conn: Connection, job_id: UUID, status: str, within_s: float = 15.0) -> jobs.Job:
    """Wait until the job has this status; the job."""

    async def reached() -> bool:
        return (await jobs.get_job(conn, job_id)).status == status

    await eventually(reached, within_s=within_s)
    return await jobs.get_job(conn, job_id)


async def all_done(conn: Connection, within_s: float = 30.0) -> None:
    """Wait until every job has succeeded."""

    async def nothing_left() -> bool:
        return not await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status <> 'succeeded'")

    await eventually(nothing_left, within_s=within_s)
