"""Jobs whose worker died or stops: back into the queue, or to the dead letters when no attempt is left."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from dms_worker.held import HeldJob
from dms_worker.job_types import DeadJob, HookFailed, JobType
from nexarch import jobs
from nexarch.db import DATABASE_ERRORS, Connection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What was taken from lost workers: how many jobs, and how many of these are dead letters now, by type."""

    jobs: int
    dead: Counter[str]


async def reclaim_lost(conn: Connection, tenant: str, job_types: Sequence[JobType], stale_after_s: float) -> TakenBack:
    """Take back the jobs of these types whose locks are older than `stale_after_s`.

    What is given up needs its hook in the same transaction, so these end one by one: one hook that fails keeps
    only its own job back. A database that fails would fail for the others too, so they are left. All of them are
    tried again at the next look.
    """
    by_name = {job_type.name: job_type for job_type in job_types}
    reclaimed = await jobs.reclaim(conn, list(by_name), stale_after_s)
    dead: Counter[str] = Counter()
    for job in await jobs.lost_jobs(conn, list(by_name), stale_after_s):
        try:
            fate = await _bury(conn, tenant, by_name[job.job_type], job, stale_after_s)
        except HookFailed:
            log.exception("giving up not noted", tenant=tenant, job_id=job.id)
            continue
        except DATABASE_ERRORS as error:
            log.warning("lost jobs not given up", tenant=tenant, reason=f"{type(error).__name__}: {error}")
            break
        reclaimed += fate is not None
        dead[job.job_type] += fate is jobs.Fate.DEAD
    if reclaimed:
        log.warning("jobs of lost workers taken back", tenant=tenant, jobs=reclaimed)
    return TakenBack(reclaimed, dead)


async def release_all(conn: Connection, group: Sequence[HeldJob]) -> Mapping[UUID, jobs.Fate]:
    """Give a tenant's held jobs back at a stop; the fates of those that were still held."""
    async with conn.transaction():
        fates = await jobs.release(conn, [held.job for held in group])
        for held in group:
            if fates.get(held.job.id) is jobs.Fate.CANCELLED:
                await held.job_type.give_up(DeadJob(held.ctx.tenant, held.job, conn), jobs.CANCELLED)
    return fates


async def _bury(
    conn: Connection, tenant: str, job_type: JobType, job: jobs.ClaimedJob, stale_after_s: float
) -> jobs.Fate | None:
    async with conn.transaction():
        fate = await jobs.bury_lost(conn, job, stale_after_s)
        if fate is not None:
            error = jobs.CANCELLED if fate is jobs.Fate.CANCELLED else jobs.WORKER_LOST
            await job_type.give_up(DeadJob(tenant, job, conn), error)
    return fate
