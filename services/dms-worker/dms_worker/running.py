"""Runs one job: the handler, its deadline, and the end of the attempt in the row."""

import asyncio
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from dms_worker.completions import Completions
from dms_worker.held import HeldJob
from dms_worker.job_types import DeadJob, HookFailed, JobContext, PermanentError, Snooze
from dms_worker.metrics import JobMetrics
from nexarch import jobs, logs, tracing
from nexarch.core_client import CoreApiAway
from nexarch.db import DATABASE_ERRORS, borrow, is_server_down
from nexarch.errors import NexarchError
from nexarch.listen import backoff_s
from nexarch.storage import StorageAway, StorageRefused

_TIMEOUT_S = 10.0

_FIRST_PUT_OFF_S = 1.0
_LONGEST_PUT_OFF_S = 60.0
_MOST_PUT_OFFS = (
    1500  # a day; then attempts count, so that a store that always fails on one object does not go on for ever
)

log = structlog.get_logger(__name__)


class Runner:
    """What a job's task does. `settled(held, outcome)` is called once for each job that did not succeed."""

    def __init__(self, completions: Completions, metrics: JobMetrics, settled: Callable[[HeldJob, str], None]) -> None:
        self._completions = completions
        self._metrics = metrics
        self._settled = settled

    async def run(self, held: HeldJob) -> None:
        """From the claim to the settled row. Cancelled for a stop it leaves the job held, to be released."""
        # Of `ctx`, not of `held`, which knows this task, and so these variables: such a cycle is garbage for long.
        logs.in_every_line(partial(_in_logs, held.ctx, tracing.continue_trace(held.job.traceparent)))
        held.started = True
        if held.cancelled_for is not None:
            await self._cancelled(held)
            return
        try:
            ending = await self._handle(held)
            if ending is not None:
                await self._end_until_written(held, ending)
            elif held.ctx.completed:
                await self._completions.already(held)
            else:
                self._completions.add(held)
        except asyncio.CancelledError:
            await self._cancelled(held)

    async def _handle(self, held: HeldJob) -> "_Failure | Snooze | None":
        """Run the handler under its deadline: None if it succeeded.

        CancelledError only if the job is to end without a word in its row.
        """
        started = time.monotonic()
        held.deadline_at = started + held.job_type.deadline_s
        try:
            await held.job_type.handler(held.ctx)
        except Snooze as snooze:
            return snooze
        except PermanentError as failure:
            return _Failure(jobs.JobError(failure.code, failure.detail), permanent=True)
        except asyncio.CancelledError:
            if held.cancelled_for == "deadline":
                held.forget_cancellation()
                detail = f"The job ran longer than {held.job_type.deadline_s:g} s."
                return _Failure(jobs.JobError("deadline-exceeded", detail))
            if held.cancelled_for == "person":
                held.forget_cancellation()
                return _Failure(jobs.CANCELLED, permanent=True)
            if held.cancelled_for is not None:
                raise
            return _Failure(jobs.JobError("cancelled", "The handler was cancelled from within."))
        except Exception as failure:  # noqa: BLE001 - a handler may raise anything; it is stored in the row
            error = _describe(failure)
            put_off_s = _put_off_s(held.job) if _is_away(failure) else None
            if put_off_s is None:
                return _Failure(error)
            log.warning("what the job needs is away", code=error.code, detail=error.detail)
            return Snooze(put_off_s)
        finally:
            held.deadline_at = math.inf
            self._metrics.run[held.job.job_type].observe(time.monotonic() - started)
        return None

    async def _cancelled(self, held: HeldJob) -> None:
        log.warning("job ended early", reason=held.cancelled_for)
        if held.cancelled_for != "stop":
            await self._end(held, "lost")

    async def _end(self, held: HeldJob, outcome: str) -> None:
        self._settled(held, outcome)
        await held.visit.leave()

    async def _end_until_written(self, held: HeldJob, ending: "_Failure | Snooze") -> None:
        """Write how the attempt ended; while the database is away try again, until the heartbeat gives the job up."""
        failures = 0
        fate: jobs.Fate | None = None
        while True:
            try:
                fate = await self._write(held, ending)
                break
            except DATABASE_ERRORS as problem:
                failures += 1
                log.warning("end of a job not written", reason=f"{type(problem).__name__}: {problem}")
                await asyncio.sleep(backoff_s(failures, 0.05, 5.0))
            except HookFailed:
                # Nobody renews the lock from now on, so it goes stale, and all of it is tried again.
                log.exception("giving up not noted")
                break
        if isinstance(ending, Snooze):
            outcome = "snoozed" if fate is jobs.Fate.QUEUED else _OUTCOMES[fate]
            log.info("job snoozed", seconds=ending.seconds, outcome=outcome)
        else:
            outcome = _OUTCOMES[fate]
            log.warning("job failed", code=ending.error.code, detail=ending.error.detail, outcome=outcome)
        await self._end(held, outcome)

    async def _write(self, held: HeldJob, ending: "_Failure | Snooze") -> jobs.Fate | None:
        job = held.job
        async with borrow(held.ctx.pool, _TIMEOUT_S) as conn, conn.transaction():
            if isinstance(ending, Snooze):
                fate, error = await jobs.snooze(conn, job, ending.seconds), jobs.CANCELLED
            else:
                delay_s = held.job_type.retry.delay_s(job.attempts)
                fate = await jobs.fail(conn, job, ending.error, delay_s=delay_s, permanent=ending.permanent)
                error = jobs.CANCELLED if fate is jobs.Fate.CANCELLED else ending.error
            if fate in {jobs.Fate.DEAD, jobs.Fate.CANCELLED}:
                await held.job_type.give_up(DeadJob(held.ctx.tenant, job, conn), error)
        return fate


_OUTCOMES: dict[jobs.Fate | None, str] = {
    None: "lost",
    jobs.Fate.QUEUED: "retried",
    jobs.Fate.DEAD: "dead",
    jobs.Fate.CANCELLED: "cancelled",
    jobs.Fate.FOLDED: "folded",
}


def _in_logs(ctx: JobContext, span: tracing.Span) -> dict[str, object]:
    return {
        "trace_id": span.trace.trace_id,
        "span_id": span.trace.span_id,
        "tenant": ctx.tenant,
        "job_id": ctx.job.id,
        "job_type": ctx.job.job_type,
        "attempt": ctx.job.attempts,
    }


def _is_away(failure: Exception) -> bool:
    """Whether something is away that every job needs.

    Not so a connection that broke: the job itself may have broken it, and one that does so each time must run out of
    attempts.
    """
    return isinstance(failure, CoreApiAway | StorageAway | StorageRefused) or is_server_down(failure)


def _put_off_s(job: jobs.ClaimedJob) -> float | None:
    """How long a job waits for what is away; None if it was put off too often."""
    times = job.lease - job.attempts  # claims whose attempt was given back
    return backoff_s(times + 1, _FIRST_PUT_OFF_S, _LONGEST_PUT_OFF_S) if times < _MOST_PUT_OFFS else None


def _describe(failure: Exception) -> jobs.JobError:
    """What a handler raised, for the row: our own errors by their code, others by their type."""
    text = "".join(traceback.format_exception(failure))
    if isinstance(failure, NexarchError):
        return jobs.JobError(failure.code, failure.detail, text)
    return jobs.JobError("handler-error", f"{type(failure).__name__}: {failure}", text)


@dataclass(frozen=True, slots=True)
class _Failure:
    """How an attempt failed, and whether another one makes sense."""

    error: jobs.JobError
    permanent: bool = False
