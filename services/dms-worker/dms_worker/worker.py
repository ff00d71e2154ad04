"""The worker: one process that runs the jobs of all tenants.

    a ring, a timer, the sweep -> due tenants -> a turn each, round robin: claim -> a task per job -> settle

Each part stands in a module of its own: `due` (who is next), `sweep` (the net below the rings), `turns` (a tenant's
turn: claims), `ahead` (when the next one is to be), `slots` (how many at once), `held` (the locks and their heartbeat),
`running` (one job), `completions` (the successful ends).
"""

import asyncio
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from dms_worker.ahead import Ahead
from dms_worker.cancelling import CancelWatch
from dms_worker.completions import Completions
from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason
from dms_worker.held import Deadlines, Heartbeat, HeldJob, HeldJobs
from dms_worker.job_types import JobType
from dms_worker.lost import release_all
from dms_worker.metrics import JobMetrics
from dms_worker.running import Runner
from dms_worker.slots import Limits, Slots
from dms_worker.sweep import Directory, Sweep
from dms_worker.turns import PoolFor, TurnLimits, Turns
from nexarch import channels, jobs
from nexarch.db import borrow
from nexarch.listen import Listener, Wake

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
        self._sweep = Sweep(directory, self._due, self._options.sweep_interval_s)
        self._cancels = CancelWatch(self._held, self._heartbeat)
        wakes = {channels.JOBS: self._rung, channels.JOB_CANCELS: self._cancels.hear} | dict(also_wakes or {})
        self.listener = Listener(bus_dsn, wakes, application_name="nexarch-worker-bus")
        depths = Depths(registry, self._job_types)
        self._metrics = JobMetrics(registry, self.listener, self._job_types)
        self._completions = Completions(self._completed)
        self._turns = Turns(
            worker=self.name,
            job_types=self._job_types,
            pool_for=pool_for,
            limits=TurnLimits(
                at_once=self._options.turns_at_once,
                concurrency=self._options.concurrency,
                batch=self._options.batch,
                timeout_s=self._options.turn_timeout_s,
            ),
            due=self._due,
            slots=self._slots,
            held=self._held,
            completions=self._completions,
            runner=Runner(self._completions, self._metrics, self._settled),
            metrics=self._metrics,
            ahead=Ahead(self._job_types, self._options.stale_after_s, self._due, depths, self._metrics, ring),
        )
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
                turns = group.create_task(self._turns.run())
                parts = (self.listener, self._sweep, self._heartbeat, self._cancels, self._deadlines)
                background = [group.create_task(part.run()) for part in parts]
                await self._stop.wait()
                self._due.close()
                await turns
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
