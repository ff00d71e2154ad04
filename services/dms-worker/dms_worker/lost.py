"""Jobs whose worker died: back into the queue, or to the dead letters when no attempt is left."""

from collections.abc import Sequence

import structlog

from dms_worker.job_types import DeadJob, JobType
from nexarch import jobs
from nexarch.db import Connection

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reclaim_lost(conn: Connection, tenant: str, job_types: Sequence[JobType], stale_after_s: float) -> int:
    """Take back the jobs of these types whose locks are older than `stale_after_s`; return how many.

    A dead letter needs its hook in the same transaction, so these are made one by one: one hook that fails keeps
    only its own job back, which is then tried again.
    """
    by_name = {job_type.name: job_type for job_type in job_types}
    reclaimed = await jobs.reclaim(conn, list(by_name), stale_after_s)
    for job in await jobs.lost_jobs(conn, list(by_name), stale_after_s):
        try:
            reclaimed += await _bury(conn, tenant, by_name[job.job_type], job, stale_after_s)
        except Exception:  # noqa: BLE001 - a hook may raise anything
            _log.exception("on_dead_failed", tenant=tenant, job_id=job.id)
    if reclaimed:
        _log.warning("jobs_reclaimed", tenant=tenant, jobs=reclaimed)
    return reclaimed


async def _bury(conn: Connection, tenant: str, job_type: JobType, job: jobs.ClaimedJob, stale_after_s: float) -> bool:
    async with conn.transaction():
        buried = await jobs.bury_lost(conn, job, stale_after_s)
        if buried and job_type.on_dead is not None:
            await job_type.on_dead(DeadJob(tenant, job, conn), jobs.WORKER_LOST)
    return buried
