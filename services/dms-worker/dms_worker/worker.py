"""The worker: one process that runs the jobs of all tenants.

    a ring, a timer, the sweep -> due tenants -> a turn each, round robin: claim -> a task per job -> settle

Each part stands in a module of its own: `due` (who is next), `sweep` (the net below the rings), `slots` (how many at
once), `held` (the locks and their heartbeat), `running` (one job), `completions` (the successful ends).
"""

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from dms_worker.cancelling import CancelWatch
from dms_worker.completions import Completions
from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason, Turn
from dms_worker.held import Deadlines, Heartbeat, HeldJob, HeldJobs, Visit
from dms_worker.job_types import JobContext, JobType
from dms_worker.lost import reclaim_lost, release_all
from dms_worker.metrics import JobMetrics
from dms_worker.periods import Periods
from dms_worker.running import Runner
from dms_worker.slots import Limits, Slots
from dms_worker.sweep import Directory, Sweep
from nexarch import channels, jobs
from nexarch.db import DATABASE_ERRORS, Connection, Pool, PoolConnection, borrow, hang_up
from nexarch.errors import Forbidden, NexarchError, NotFound
from nexarch.listen import Listener, Wake, backoff_s

PoolFor = Callable[[str], AbstractAsyncContextManager[Pool]]

# In a backlog; the others begin where the one before ended.
_FROM_THE_FIRST_EVERY = 50

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How the worker behaves; all times in seconds."""

    concurrency: int = 8  # jobs at once in this process, of all types
    tenant_concurrency: int | None = None  # of these in one tenant: less than all of them, and no tenant takes all
    batch: int = 500  # most jobs in one claim: each costs a commit, whatever its size
    stale_after_s: float = 60.0  # without a heartbeat for so long, a job is taken from its worker
    grace_s: float = 20.0  # for running jobs at a stop
    turns_at_once: int = 8  # tenants looked at in parallel, so a dead database holds up one of so many
    turn_timeout_s: float = 5.0
    sweep_interval_s: float = 60.0


class Worker:
    """Runs jobs from `run` until `stop`; as a context manager it does both.

    - `pool_for(slug)`: the pool of a tenant's database, open inside the `async with`. Its errors Forbidden and
      NotFound mean that the tenant is not to be served; any other is tried again with backoff.
    - `directory()`: all tenants to be served, for the sweep.
    - `ring(slug)`: tells the other workers that a job became due or changed its time (`Doorbell.ring`).
    - `also_wakes`: other channels for the one connection that listens.
    """

    def __init__(
        self,
        job_types: Sequence[JobType],
        *,
        bus_dsn: str,
        pool_for: PoolFor,
        directory: Directory,
        ring: Callable[[str], None],
        registry: CollectorRegistry,
        options: WorkerOptions | None = None,
        also_wakes: Mapping[str, Wake] | None = None,
    ) -> None:
        self._options = options or WorkerOptions()
        self._job_types = {job_type.name: job_type for job_type in job_types}
        self._pool_for = pool_for
        self._ring = ring
        # New for each start: a lock must never pass to a successor of the same name.
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._due = DueTenants(self._job_types)
        limits = Limits(
            total=self._options.concurrency,
            by_type={each.name: each.concurrency for each in job_types},
            per_tenant=self._options.tenant_concurrency,
            by_type_per_tenant={
                each.name: each.tenant_concurrency for each in job_types if each.tenant_concurrency is not None
            },
        )
        self._slots = Slots(limits, on_free=self._slots_freed)
        self._held = HeldJobs()
        self._heartbeat = Heartbeat(self._held, self._options.stale_after_s)
        self._deadlines = Deadlines(self._held)
        self._periods = Periods({each.name: each.every_s for each in job_types if each.every_s is not None})
        self._sweep = Sweep(directory, self._due, self._options.sweep_interval_s)
        self._cancels = CancelWatch(self._held, self._heartbeat)
        wakes = {channels.JOBS: self._rung, channels.JOB_CANCELS: self._cancels.hear} | dict(also_wakes or {})
        self.listener = Listener(bus_dsn, wakes, application_name="nexarch-worker-bus")
        self._depths = Depths(registry, self._job_types)
        self._metrics = JobMetrics(registry, self.listener, self._job_types)
        self._completions = Completions(self._completed)
        self._runner = Runner(self._completions, self._metrics, self._settled)
        self._failures: Counter[str] = Counter()  # failed turns in a row, by tenant
        self._looked_at: dict[str, float] = {}  # tenant to the time of the last look ahead, by time.monotonic()
        self._stop = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name="worker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        await self.stop()
        await self._task

    async def run(self) -> None:
        """Work until `stop`, then drain: running jobs have the grace period, what is left is given back.

        Raises only what is a fault of the program; the process should then end and be started afresh.
        """
        _log.info("worker_started", worker=self.name, job_types=sorted(self._job_types))
        try:
            async with asyncio.TaskGroup() as group:
                turns = [group.create_task(self._take_turns()) for _ in range(self._options.turns_at_once)]
                parts = (self.listener, self._sweep, self._heartbeat, self._cancels, self._deadlines)
                background = [group.create_task(part.run()) for part in parts]
                await self._stop.wait()
                self._due.close()
                await asyncio.wait(turns)
                await self._drain()
                for task in background:
                    task.cancel()
        finally:
            for held in self._held:
                held.cancel("stop")
            self._stopped.set()
            _log.info("worker_stopped", worker=self.name)

    async def stop(self) -> None:
        """Claim nothing more from now on; return when the running jobs have ended or were given back."""
        self._stop.set()
        self._due.close()
        await self._stopped.wait()

    def look_at(self, tenant: str | None) -> None:
        """Look at a tenant that changed, or at all: one that was resumed may have jobs that waited."""
        if tenant is None:
            self._sweep.look_everywhere()
        else:
            self._due.mark(tenant, Reason.SWEEP)

    def _rung(self, tenant: str | None) -> None:
        if tenant is None:
            self._sweep.look_everywhere()
        else:
            self._due.mark(tenant, Reason.RING)

    async def _take_turns(self) -> None:
        """One turn after the other, until the line closes. Whatever a tenant's database does, the next has its turn."""
        while (turn := await self._due.take()) is not None:
            try:
                await self._take_turn(turn)
                self._failures.pop(turn.tenant, None)
            except (Forbidden, NotFound) as error:
                _log.info("tenant_not_served", tenant=turn.tenant, reason=error.code)
                self._failures.pop(turn.tenant, None)
            except Exception as error:  # noqa: BLE001 - one tenant's trouble, even a fault of ours, is not the others'
                self._failures[turn.tenant] += 1
                self._metrics.failed_turns.inc()
                unexpected = None if isinstance(error, (*DATABASE_ERRORS, NexarchError)) else error
                reason = f"{type(error).__name__}: {error}"
                _log.warning("turn_failed", tenant=turn.tenant, reason=reason, exc_info=unexpected)
                self._due.mark_later(turn.tenant, backoff_s(self._failures[turn.tenant], 0.5, 60.0), Reason.TIMER)
            finally:
                self._due.finish(turn)
                self._slots_freed()  # a turn that failed has given none back, but had one been brought back for it
                self._metrics.due_tenants.set(len(self._due))

    async def _take_turn(self, turn: Turn) -> None:
        """Claim for this tenant while it has jobs, slots are free and nobody else waits; then look ahead."""
        if not self._slots.free(turn.tenant, turn.job_types):
            self._due.stand_aside(turn, turn.job_types)
            return
        visit, conn = await self._arrive(turn.tenant)
        self._completions.turn_begins(turn.tenant)
        try:
            try:
                await self._visit(turn, visit, conn)
            except TimeoutError:
                await hang_up(visit.pool, conn)
                raise
            finally:
                await visit.pool.release(conn, timeout=self._options.turn_timeout_s)
        finally:
            self._completions.turn_ends(turn.tenant)
            await visit.leave()

    async def _arrive(self, tenant: str) -> tuple[Visit, PoolConnection]:
        """The tenant's pool and a connection of it, in time or not at all."""
        use = self._pool_for(tenant)
        async with asyncio.timeout(self._options.turn_timeout_s):
            visit = Visit(tenant, await use.__aenter__(), use)
            try:
                return visit, await visit.pool.acquire()
            except BaseException:
                await visit.leave()
                raise

    async def _visit(self, turn: Turn, visit: Visit, conn: Connection) -> None:
        claimed, full, after = await self._claim(turn, conn, turn.job_types, {})
        looked_ahead = False
        if full and not turn.more_known and self._due.others_wait:
            # Of a thousand tenants that wait most have one job: to see that here saves each of them a second turn.
            await self._start(visit, claimed)
            claimed = []
            looked_ahead = True
            if not await self._look_ahead(turn.tenant, conn):
                full = set()
        turn.more_known = True
        wanted = self._with_slots(turn, full)
        claims = 0
        while wanted and not (self._stop.is_set() or self._due.others_wait or self._locks_are_due(turn.tenant)):
            # The next statement is on its way before these jobs begin: while Postgres works at it, they run.
            claims += 1
            (claimed, full, after), _ = await asyncio.gather(
                self._claim(turn, conn, wanted, after if claims % _FROM_THE_FIRST_EVERY else {}),
                self._start(visit, claimed),
            )
            wanted = self._with_slots(turn, full)
        await self._start(visit, claimed)
        await asyncio.sleep(0)  # they begin before we look further
        if wanted and not self._stop.is_set():
            self._due.again(turn, wanted)
            if not self._locks_are_due(turn.tenant):
                return
        if not looked_ahead:
            await self._look_ahead(turn.tenant, conn)
        # So that jobs that are done by now need no connection of their own.
        await self._complete_and_claim(turn.tenant, conn, {}, {})

    async def _claim(
        self, turn: Turn, conn: Connection, wanted: set[str], after: Mapping[str, float]
    ) -> tuple[list[jobs.ClaimedJob], set[str], Mapping[str, float]]:
        """Claim once: the jobs, the types of which there may be more, and where their next claim may begin.

        What was claimed from somewhere in the middle is through only when a claim from the first job says so.
        """
        limits = self._slots.take(turn.tenant, wanted, self._most_jobs(turn.tenant, wanted))
        unused = dict(limits)
        try:
            claimed, reached = await self._complete_and_claim(turn.tenant, conn, limits, after)
            for job in claimed:
                unused[job.job_type] -= 1
        finally:
            self._slots.give_back(turn.tenant, unused)
        self._metrics.found[turn.reason].inc(len(claimed))
        full = {name for name in wanted if not unused.get(name)}
        return claimed, full | after.keys(), {name: reached[name] for name in full & reached.keys()}

    def _with_slots(self, turn: Turn, wanted: set[str]) -> set[str]:
        """Those of the types for which a slot is free; with the others the tenant stands aside until one is."""
        free = self._slots.free(turn.tenant, wanted)
        if wanted - free:
            self._due.stand_aside(turn, wanted - free)
        return free

    def _most_jobs(self, tenant: str, wanted: set[str]) -> int:
        """How many slots a claim may reserve while its statement runs."""
        if self._failures[tenant]:
            return 1  # a database that did not answer last time holds up one slot, not all of them
        if self._due.others_wait:
            # Else the first of a thousand tenants would reserve all slots, and the other turns find none.
            share = self._options.concurrency // self._options.turns_at_once
            return min(self._options.batch, max(share, len(wanted)))
        return self._options.batch

    async def _complete_and_claim(
        self, tenant: str, conn: Connection, limits: Mapping[str, int], after: Mapping[str, float]
    ) -> tuple[list[jobs.ClaimedJob], Mapping[str, float]]:
        """Write what has finished and claim, in one statement if there is both to do: see `jobs.complete_and_claim`."""
        finished = self._completions.take(tenant)
        lost: set[UUID] = set()
        claimed: list[jobs.ClaimedJob] = []
        reached: Mapping[str, float] = {}
        try:
            async with asyncio.timeout(self._options.turn_timeout_s):
                rows = [held.job for held in finished]
                if finished and limits:
                    lost, claimed, reached = await jobs.complete_and_claim(conn, rows, self.name, limits, after=after)
                elif finished:
                    lost = {job.id for job in rows} - await jobs.complete(conn, rows)
                elif limits:
                    claimed = await jobs.claim(conn, self.name, limits)
        except BaseException:
            self._completions.untake(tenant, finished)
            raise
        if finished:
            await self._completions.settle(finished, lost)
        return claimed, reached

    async def _start(self, visit: Visit, claimed: Sequence[jobs.ClaimedJob]) -> None:
        now = time.monotonic()
        visit.users += len(claimed)
        numbers: dict[str, int] = {}
        for job in claimed:
            name = job.job_type
            held = HeldJob(JobContext(visit.tenant, job, visit.pool), self._job_types[name], visit, now)
            self._held.add(held)
            held.task = asyncio.create_task(self._runner.run(held), name="job")
            self._metrics.wait[name].observe(job.waited_s)
            numbers[name] = numbers.get(name, 0) + 1
        for name, number in numbers.items():
            self._metrics.claimed[name].inc(number)
            self._metrics.running[name].inc(number)

    async def _look_ahead(self, tenant: str, conn: Connection) -> bool:
        """Take back what dead workers hold, and set the timer for whatever comes next without a ring.

        Whether jobs are due now.
        """
        async with asyncio.timeout(self._options.turn_timeout_s):
            return await self._look(tenant, conn)

    async def _look(self, tenant: str, conn: Connection) -> bool:
        # What waits for a slot has another turn anyway, and would be due now at every look. Its locks are looked at all
        # the same, now and then: a backlog that never ends must not hide what a dead worker holds.
        names = sorted(self._job_types.keys() - self._due.types_aside(tenant))
        locks = sorted(self._job_types) if names or self._locks_are_due(tenant) else []
        if not locks:
            return False
        stale_after_s = self._options.stale_after_s
        self._looked_at[tenant] = time.monotonic()
        next_period_s = await self._periods.begin(tenant, conn)
        outlook = await jobs.next_due(conn, names, stale_after_s, lock_types=locks)
        measure_s = await self._depths.measure(tenant, conn)
        wishes = (outlook.due_in_s, outlook.stale_in_s, next_period_s, measure_s)
        times = [seconds for seconds in wishes if seconds is not None]
        if outlook.stale_in_s == 0:
            taken = await reclaim_lost(conn, tenant, list(self._job_types.values()), stale_after_s)
            self._metrics.taken_back(taken)
            if taken.jobs:
                # The others too: they may have the free slots, and must know the times should this worker die.
                self._due.mark(tenant, Reason.TIMER)
                self._ring(tenant)
            # Else a hook failed, or another worker was first.
            times = [stale_after_s / 3 if seconds == 0 else seconds for seconds in times]
        if times:
            # What is due now and was not claimed is in another worker's claim, which ends in a moment.
            self._due.mark_later(tenant, max(0.05, min(times)), Reason.TIMER)
        return outlook.due_in_s == 0

    def _locks_are_due(self, tenant: str) -> bool:
        """Whether the last look at a tenant's locks is long ago, measured by the stale time."""
        return self._looked_at.get(tenant, 0.0) + self._options.stale_after_s / 3 < time.monotonic()

    def _completed(self, batch: Sequence[HeldJob], lost: set[UUID]) -> None:
        for held in batch:
            self._held.remove(held)
        ended = Counter([held.ctx.job.job_type for held in batch])
        if lost:
            gone = Counter([held.job.job_type for held in batch if held.job.id in lost])
            self._metrics.ended_many(gone, "lost")
            self._metrics.ended_many(ended - gone, "succeeded")
        else:
            self._metrics.ended_many(ended, "succeeded")
        if batch:
            self._free_slots(batch[0].ctx.tenant, ended)  # a batch is of one tenant

    def _settled(self, held: HeldJob, outcome: str) -> None:
        self._held.remove(held)
        self._metrics.ended(held.job.job_type, outcome)
        self._free_slots(held.ctx.tenant, {held.job.job_type: 1})
        if outcome in {"retried", "snoozed"}:
            # Every worker learns when the job comes due, so the retry does not depend on this one.
            self._due.mark(held.ctx.tenant, Reason.TIMER)
            self._ring(held.ctx.tenant)

    def _free_slots(self, tenant: str, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            self._metrics.running[name].dec(number)
        self._slots.give_back(tenant, numbers)

    def _slots_freed(self) -> None:
        self._due.slots_freed(self._slots.free, self._slots.left)

    async def _drain(self) -> None:
        """Let the running jobs end within the grace period; cancel the others and give them back."""
        try:
            async with asyncio.timeout(self._options.grace_s):
                await self._held.wait_empty()
        except TimeoutError:
            _log.warning("grace_period_over", jobs=len(self._held))
        else:
            return
        for held in self._held:
            held.cancel("stop")
        tasks = [held.task for held in self._held if held.task is not None]
        await asyncio.wait(tasks, timeout=self._options.turn_timeout_s)
        await self._completions.close()
        by_tenant: dict[str, list[HeldJob]] = {}
        for held in self._held:
            if held.task is not None and held.task.done():  # one that ignores its cancellation keeps its lock
                by_tenant.setdefault(held.ctx.tenant, []).append(held)
        await asyncio.gather(*(self._release(tenant, group) for tenant, group in by_tenant.items()))

    async def _release(self, tenant: str, group: Sequence[HeldJob]) -> None:
        try:
            async with borrow(group[-1].visit.pool, self._options.turn_timeout_s) as conn:
                released = await release_all(conn, group)
        except Exception as error:  # noqa: BLE001 - a hook may raise anything, and other tenants' jobs are waiting
            # The locks go stale instead, and the attempts count.
            _log.warning("release_failed", tenant=tenant, jobs=len(group), reason=f"{type(error).__name__}: {error}")
            return
        for held in group:
            fate = released.get(held.job.id)
            self._settled(held, "released" if fate is jobs.Fate.QUEUED else fate or "lost")
            await held.visit.leave()
        self._ring(tenant)
