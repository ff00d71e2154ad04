"""A turn of a tenant: claim while it has jobs, slots are free and nobody else waits, and begin what was claimed."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from dms_worker.ahead import Ahead
from dms_worker.completions import Completions
from dms_worker.due import DueTenants, Reason, Turn
from dms_worker.held import HeldJob, HeldJobs, Visit
from dms_worker.job_types import JobContext, JobType
from dms_worker.metrics import JobMetrics
from dms_worker.running import Runner
from dms_worker.slots import Slots
from nexarch import jobs
from nexarch.db import DATABASE_ERRORS, Connection, Pool, PoolConnection, hang_up
from nexarch.errors import Forbidden, NexarchError, NotFound
from nexarch.listen import backoff_s

PoolFor = Callable[[str], AbstractAsyncContextManager[Pool]]

# In a backlog; the others begin where the one before ended.
_FROM_THE_FRONT_EVERY = 50

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """Of all turns together, but for `batch` and `timeout_s`."""

    at_once: int  # tenants looked at in parallel
    concurrency: int  # jobs at once in this process
    batch: int  # most jobs in one claim
    timeout_s: float  # of each statement, and of the way to the tenant's database


@dataclass(slots=True, kw_only=True)
class Turns:
    """Takes the turns of the tenants that are due, several at once, until the line closes."""

    worker: str
    job_types: Mapping[str, JobType]
    pool_for: PoolFor
    limits: TurnLimits
    due: DueTenants
    slots: Slots
    held: HeldJobs
    completions: Completions
    runner: Runner
    metrics: JobMetrics
    ahead: Ahead
    _failures: Counter[str] = field(default_factory=Counter)  # failed turns in a row, by tenant

    async def run(self) -> None:
        """Return when the line is closed and the last turn has ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.limits.at_once):
                group.create_task(self._take_turns())

    async def _take_turns(self) -> None:
        """One turn after the other, until the line closes. Whatever a tenant's database does, the next has its turn."""
        while (turn := await self.due.take()) is not None:
            try:
                await self._take_turn(turn)
                if turn.answered:
                    self._failures.pop(turn.tenant, None)
            except (Forbidden, NotFound) as error:
                _log.info("tenant_not_served", tenant=turn.tenant, reason=error.code)
                self._failures.pop(turn.tenant, None)
            except Exception as error:  # noqa: BLE001 - one tenant's trouble, even a fault of ours, is not the others'
                self._failures[turn.tenant] += 1
                self.metrics.failed_turns.inc()
                unexpected = None if isinstance(error, (*DATABASE_ERRORS, NexarchError)) else error
                reason = f"{type(error).__name__}: {error}"
                _log.warning("turn_failed", tenant=turn.tenant, reason=reason, exc_info=unexpected)
                self.due.mark_later(turn.tenant, backoff_s(self._failures[turn.tenant], 0.5, 60.0), Reason.TIMER)
            finally:
                self.due.finish(turn)
                # A turn that failed has given none back, but had one been brought back for it.
                self.due.slots_freed(self.slots.free, self.slots.left)
                self.metrics.due_tenants.set(len(self.due))

    async def _take_turn(self, turn: Turn) -> None:
        """Claim for this tenant while it has jobs, slots are free and nobody else waits; then look ahead."""
        if not self.slots.free(turn.tenant, turn.job_types):
            self.due.stand_aside(turn, turn.job_types)
            return
        visit, conn = await self._arrive(turn.tenant)
        self.completions.turn_begins(turn.tenant)
        try:
            try:
                await self._visit(turn, visit, conn)
            except TimeoutError:
                await hang_up(visit.pool, conn)
                raise
            finally:
                await visit.pool.release(conn, timeout=self.limits.timeout_s)
        finally:
            self.completions.turn_ends(turn.tenant)
            await visit.leave()

    async def _arrive(self, tenant: str) -> tuple[Visit, PoolConnection]:
        """The tenant's pool and a connection of it, in time or not at all."""
        use = self.pool_for(tenant)
        async with asyncio.timeout(self.limits.timeout_s):
            visit = Visit(tenant, await use.__aenter__(), use)
            try:
                return visit, await visit.pool.acquire()
            except BaseException:
                await visit.leave()
                raise

    async def _visit(self, turn: Turn, visit: Visit, conn: Connection) -> None:
        front = self.ahead.front(turn.tenant)
        claimed, full, after = await self._claim(turn, visit, conn, turn.job_types, front)
        looked_ahead = False
        if full and not turn.more_known and self.due.others_wait:
            # Of a thousand tenants that wait most have one job: to see that here saves each of them a second turn.
            self._start(visit, claimed, turn.reason)
            claimed = []
            looked_ahead = True
            if not await self._look_ahead(turn.tenant, conn):
                full = set()
        turn.more_known = True
        wanted = self._with_slots(turn, full)
        claims = 0
        while wanted and not (self.due.closed or self.due.others_wait or self.ahead.look_is_due(turn.tenant)):
            # A long backlog: another session writes what has finished, and the next claim is on its way before these
            # jobs begin, so that Postgres works on two cores while they run.
            self.completions.turn_ends(turn.tenant)
            claims += 1
            passed = after if claims % _FROM_THE_FRONT_EVERY else {}
            next_claim = asyncio.create_task(self._claim(turn, visit, conn, wanted, front | passed), name="claim")
            try:
                await asyncio.sleep(0)  # it is on its way
                self._start(visit, claimed, turn.reason)
            finally:
                claimed, full, after = await next_claim  # whatever happens: the connection is in use until then
            # What was claimed from somewhere in the middle is through only when a claim from the front says so.
            wanted = self._with_slots(turn, full | passed.keys())
        self.completions.turn_begins(turn.tenant)
        self._start(visit, claimed, turn.reason)
        await asyncio.sleep(0)  # they begin before we look further
        if wanted and not self.due.closed:
            self.due.again(turn, wanted)
            if not self.ahead.look_is_due(turn.tenant):
                return
        if not looked_ahead:
            # What has finished does not wait for a look, which may take long; unless it frees a slot for which jobs
            # wait, for then the look would find those due, and have the tenant looked at again for them.
            if not self.due.types_aside(turn.tenant):
                await self._complete_and_claim(turn.tenant, conn, {}, {})
            await self._look_ahead(turn.tenant, conn)
        # So that jobs that are done by now need no connection of their own.
        await self._complete_and_claim(turn.tenant, conn, {}, {})

    async def _claim(
        self, turn: Turn, visit: Visit, conn: Connection, wanted: set[str], after: Mapping[str, float]
    ) -> tuple[list[jobs.ClaimedJob], set[str], dict[str, float]]:
        """Claim once: jobs to be begun, the types of which there may be more, and where their next claim may begin.

        Where there are no more the jobs are begun here, before anything is counted.
        """
        limits = self.slots.take(turn.tenant, wanted, self._most_jobs(turn.tenant, wanted))
        unused = dict(limits)
        try:
            claimed = await self._complete_and_claim(turn.tenant, conn, limits, after)
            for job in claimed:
                unused[job.job_type] -= 1
            full = {name for name in wanted if not unused.get(name)}
            reached = jobs.reached(claimed) if full else {}
            if not full:
                self._start(visit, claimed, turn.reason)
                claimed = []
                await asyncio.sleep(0)  # they begin
        finally:
            self.slots.give_back(turn.tenant, unused)
        turn.answered |= bool(limits)  # else others took the slots on our way here, and nothing was asked
        return claimed, full, {name: reached[name] for name in full & reached.keys()}

    def _with_slots(self, turn: Turn, wanted: set[str]) -> set[str]:
        """Those of the types for which a slot is free; with the others the tenant stands aside until one is."""
        free = self.slots.free(turn.tenant, wanted)
        if wanted - free:
            self.due.stand_aside(turn, wanted - free)
        return free

    def _most_jobs(self, tenant: str, wanted: set[str]) -> int:
        """How many slots a claim may reserve while its statement runs."""
        if self._failures[tenant]:
            return 1  # a database that did not answer last time holds up one slot, not all of them
        if self.due.others_wait:
            # Else the first of a thousand tenants would reserve all slots, and the other turns find none.
            share = self.limits.concurrency // self.limits.at_once
            return min(self.limits.batch, max(share, len(wanted)))
        return self.limits.batch

    async def _complete_and_claim(
        self, tenant: str, conn: Connection, limits: Mapping[str, int], after: Mapping[str, float]
    ) -> list[jobs.ClaimedJob]:
        """Write what has finished and claim, in one statement if there is both to do: see `jobs.complete_and_claim`."""
        finished = self.completions.take(tenant)
        lost: set[UUID] = set()
        claimed: list[jobs.ClaimedJob] = []
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                rows = [held.job for held in finished]
                if limits or finished:
                    lost, claimed = await jobs.complete_and_claim(conn, rows, self.worker, limits, after=after)
        except BaseException:
            self.completions.untake(tenant, finished)
            raise
        if finished:
            await self.completions.settle(finished, lost)
        return claimed

    def _start(self, visit: Visit, claimed: Sequence[jobs.ClaimedJob], reason: Reason) -> None:
        now = time.monotonic()
        visit.users += len(claimed)
        for job in claimed:
            held = HeldJob(JobContext(visit.tenant, job, visit.pool), self.job_types[job.job_type], visit, now)
            self.held.add(held)
            held.task = asyncio.create_task(self.runner.run(held), name="job")
        if claimed:  # counted when they have begun: a wake does not wait for that
            asyncio.get_running_loop().call_soon(self.metrics.begun, claimed, reason)

    async def _look_ahead(self, tenant: str, conn: Connection) -> bool:
        async with asyncio.timeout(self.limits.timeout_s):
            return await self.ahead.look(tenant, conn)
