"""What a handler is given, what it may raise, and how its job type wants to be run."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nexarch import jobs
from nexarch.db import Connection, Pool
from nexarch.jobs import ClaimedJob, Job, JobError, RetryPolicy

_YEAR_S = 365 * 86400.0


class PermanentError(Exception):
    """The job can never succeed: no retry. The code and the sentence end up in the row and before the user."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Snooze(Exception):
    """Not now: the job comes back after so many seconds (at most a year), and this attempt does not count."""

    def __init__(self, seconds: float) -> None:
        if math.isnan(seconds):
            raise ValueError("a job cannot be snoozed for NaN seconds")
        super().__init__(f"snoozed for {seconds:g} s")
        self.seconds = min(max(0.0, seconds), _YEAR_S)  # a time that Postgres cannot hold would never be written


@dataclass(slots=True)
class JobContext:
    """What a handler works with. The pool is the tenant's; it stays open until the job has ended."""

    tenant: str
    job: ClaimedJob
    pool: Pool
    latest_progress: int | None = None
    completed: bool = False

    def progress(self, percent: int) -> None:
        """Say how far the job is, 0 to 100; stored with the next heartbeat."""
        self.latest_progress = min(100, max(0, percent))

    async def complete(self, conn: Connection) -> bool:
        """End the job as succeeded in the transaction that writes its result, so that neither is without the other.

        False if another worker has the job now: roll back then. Call it last: it locks the job's row until the commit,
        so that meanwhile no heartbeat renews it and nobody can cancel it. A handler that does not call this has its
        job completed afterwards.
        """
        self.completed = bool(await jobs.complete(conn, [self.job]))
        return self.completed


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that was just given up, by us or by a person; `conn` is inside the transaction that says so."""

    tenant: str
    job: ClaimedJob | Job  # as it was claimed, or as it waited
    conn: Connection


class HookFailed(Exception):
    """`on_dead` raised, whatever it was: the transaction is to be rolled back."""


Handler = Callable[[JobContext], Awaitable[None]]
OnDead = Callable[[DeadJob, JobError], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """One kind of job.

    A handler may run twice for the same job (its worker died after the work and before the row said so), so it
    must be able to. It is cancelled when it passes its deadline, when its lock is lost, when a person cancels the job
    and when the grace period of a stop is over; work on untrusted bytes belongs into a child process, which also
    keeps the loop free.

    `on_dead` runs in the transaction that makes the job a dead letter, even if its worker died, or that cancels it:
    the place to say on the document that it failed.
    """

    name: str
    handler: Handler
    concurrency: int = 4  # at once in one worker process
    tenant_concurrency: int | None = None  # of these in one tenant
    every_s: float | None = None  # makes itself a job in each tenant, once in so long, with an empty payload
    deadline_s: float = 600.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_dead: OnDead | None = None

    async def give_up(self, dead: DeadJob, error: JobError) -> None:
        """Call the type's hook, if it has one. Raises HookFailed, so that its fault is not taken for the database's."""
        if self.on_dead is None:
            return
        try:
            await self.on_dead(dead, error)
        except Exception as problem:
            raise HookFailed(f"{type(problem).__name__}: {problem}") from problem
