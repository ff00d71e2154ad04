"""Giving up a job on a person's wish: one that waits at once, one that runs by telling its worker."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

from dms_worker.held import Heartbeat, HeldJobs
from dms_worker.job_types import DeadJob, JobType
from nexarch import jobs
from nexarch.db import Connection


async def cancel(conn: Connection, tenant: str, job_id: UUID, job_types: Mapping[str, JobType]) -> None:
    """Cancel a job; one that waited ends here, and the hook of its type says so in the same transaction."""
    async with conn.transaction():
        status = await jobs.cancel(conn, job_id)
        if status is not jobs.Status.FAILED:
            return  # it runs, and its worker calls the hook
        job = await jobs.get_job(conn, job_id)
        job_type = job_types.get(job.job_type)
        if job_type is not None and job_type.on_dead is not None:
            await job_type.on_dead(DeadJob(tenant, job, conn), jobs.CANCELLED)


class CancelWatch:
    """Looks at once at the jobs that this process holds of a tenant one of whose running jobs was cancelled.

    It renews their locks, and the answer says what is to be cancelled. When the event bus is back it looks at all that
    are held. What it misses all the same, the next heartbeat finds.
    """

    def __init__(self, held: HeldJobs, heartbeat: Heartbeat) -> None:
        self._held = held
        self._heartbeat = heartbeat
        self._tenants: set[str] = set()
        self._heard = asyncio.Event()

    def hear(self, tenant: str | None) -> None:
        """A job of this tenant was cancelled; None: perhaps one of any tenant was."""
        self._tenants |= {held.ctx.tenant for held in self._held} if tenant is None else {tenant}
        self._heard.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._heard.wait()
            self._heard.clear()
            tenants, self._tenants = self._tenants, set()
            await self._heartbeat.renew([held for held in self._held if held.ctx.tenant in tenants])
