"""The jobs that this process holds, and the heartbeat that keeps them."""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal

import structlog

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import DATABASE_ERRORS, Pool, borrow

CancelReason = Literal["deadline", "lost", "stop", "person"]

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Visit:
    """A use of a tenant's pool: by the turn that opened it and by the jobs that were claimed in it."""

    tenant: str
    pool: Pool
    use: AbstractAsyncContextManager[Pool]  # entered
    users: int = 1

    async def leave(self, users: int = 1) -> None:
        """One user less, or several; the last one lets go of the pool."""
        self.users -= users
        if self.users == 0:
            await self.use.__aexit__(None, None, None)


@dataclass(slots=True, eq=False)
class HeldJob:
    """A claimed job and its task. `renewed_at` is when the last renewal that succeeded was sent."""

    ctx: JobContext
    job_type: JobType
    visit: Visit
    renewed_at: float
    task: asyncio.Task[None] | None = None
    started: bool = False
    deadline_at: float = math.inf  # while the handler runs; by time.monotonic(), like renewed_at
    cancelled_for: CancelReason | None = None

    @property
    def job(self) -> jobs.ClaimedJob:
        """The row as it was claimed."""
        return self.ctx.job

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the handler; the first reason stays."""
        if self.cancelled_for is None:
            self.cancelled_for = reason
            # A task that has not begun would end without a word, its slot never freed: it looks at the reason itself.
            if self.task is not None and self.started:
                self.task.cancel()

    def forget_cancellation(self) -> None:
        """The handler was ended, not the task: from here on the task may be cancelled for another reason."""
        self.cancelled_for = None
        if self.task is not None:
            self.task.uncancel()


@dataclass(slots=True)
class HeldJobs:
    """All jobs that this process holds; one that it lost and claimed again stands here twice, by two leases."""

    _held: set[HeldJob] = field(default_factory=set)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._empty.set()

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self._held))

    def __contains__(self, held: HeldJob) -> bool:
        return held in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: HeldJob) -> None:
        """Hold a job from its claim on."""
        self._held.add(held)
        self._empty.clear()

    def remove(self, held: HeldJob) -> None:
        """Let a job go: it is settled, or lost."""
        self._held.discard(held)
        if not self._held:
            self._empty.set()

    async def wait_empty(self) -> None:
        """Return as soon as no job is held."""
        await self._empty.wait()


class Heartbeat:
    """Renews the locks of all held jobs, one statement per tenant, every third of the stale time.

    A database that does not answer costs no job while the lock is good. When the last renewal is older than the
    stale time, another worker may have the job: the handler is cancelled, as it is when the answer says so.
    """

    def __init__(self, held: HeldJobs, stale_after_s: float) -> None:
        self._held = held
        self._stale_after_s = stale_after_s
        self._interval_s = stale_after_s / 3

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.renew(self._held)
            self._drop_overdue()

    async def renew(self, held_jobs: Iterable[HeldJob]) -> None:
        """Renew the locks of these jobs, and cancel the handlers of what is lost or what a person cancelled."""
        # Within a tenant by id, like every statement that locks several rows: no two can wait for each other.
        ordered = sorted(held_jobs, key=attrgetter("ctx.tenant", "job.id", "job.lease"))
        groups = [list(group) for _, group in groupby(ordered, attrgetter("ctx.tenant"))]
        await asyncio.gather(*(self._renew(group) for group in groups))

    async def _renew(self, group: Sequence[HeldJob]) -> None:
        sent_at = time.monotonic()
        try:
            # Bounded by the interval, so that one dead database never delays the beats of the others.
            async with borrow(group[-1].visit.pool, self._interval_s) as conn:
                still_held = await jobs.heartbeat(
                    conn, [held.job for held in group], [held.ctx.latest_progress for held in group]
                )
        except DATABASE_ERRORS as error:
            log.warning("heartbeat not written", tenant=group[0].ctx.tenant, reason=f"{type(error).__name__}: {error}")
            return
        newest = {held.job.id: held.job.lease for held in group}  # of one that was lost and claimed again
        for held in group:
            if held.job.id in still_held and held.job.lease == newest[held.job.id]:
                held.renewed_at = sent_at
                # Only the handler: how an attempt ended is written to its end, and the row knows of the wish too.
                if still_held[held.job.id] and held.deadline_at < math.inf:
                    held.cancel("person")
            elif held in self._held and not held.ctx.completed:  # else it was settled while the statement ran
                held.cancel("lost")

    def _drop_overdue(self) -> None:
        oldest = time.monotonic() - self._stale_after_s
        for held in self._held:
            if held.renewed_at < oldest:
                held.cancel("lost")


class Deadlines:
    """Cancels handlers that run longer than their type allows: alive, so the heartbeat does not find them.

    One look at all jobs every quarter of a second; a timer for each would cost a fifth of a short job.
    """

    def __init__(self, held: HeldJobs) -> None:
        self._held = held

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(0.25)
            now = time.monotonic()
            for held in self._held:
                if held.deadline_at < now:
                    held.cancel("deadline")
