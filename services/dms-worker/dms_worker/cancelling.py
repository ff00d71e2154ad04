"""Giving up a job on a person's wish."""

from collections.abc import Mapping
from uuid import UUID

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
