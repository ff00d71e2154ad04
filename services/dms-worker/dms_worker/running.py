"""Runs one job: the handler, its deadline, and the end of the attempt in the row."""

import asyncio
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dms_worker.completions import Completions
from dms_worker.held import HeldJob
from dms_worker.job_types import DeadJob, PermanentError
from dms_worker.metrics import JobMetrics
from nexarch import jobs, tracing
from nexarch.db import DATABASE_ERRORS
from nexarch.errors import NexarchError
from nexarch.listen import backoff_s

_TIMEOUT_S = 10.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Runner:
    """What a job's task does. `settled(held, outcome)` is called once for each job that did not succeed."""

    def __init__(self, completions: Completions, metrics: JobMetrics, settled: Callable[[HeldJob, str], None]) -> None:
        self._completions = completions
        self._metrics = metrics
        self._settled = settled

    async def run(self, held: HeldJob) -> None:
        """From the claim to the settled row. Cancelled for a stop it leaves the job held, to be released."""
        job = held.job
        trace = tracing.continue_trace(job.traceparent)
        structlog.contextvars.bind_contextvars(
            trace_id=trace.trace_id,
            span_id=trace.span_id,
            tenant=held.ctx.tenant,
            job_id=job.id,
            job_type=job.job_type,
            attempt=job.attempts,
        )
        held.started = True
        if held.cancelled_for is not None:
            await self._cancelled(held)
            return
        try:
            failure = await self._handle(held)
            if failure is not None:
                await self._fail_until_written(held, failure)
            elif held.ctx.completed:
                await self._completions.already(held)
            else:
                self._completions.add(held)
        except asyncio.CancelledError:
            await self._cancelled(held)

    async def _handle(self, held: HeldJob) -> "_Failure | None":
        """Run the handler under its deadline; CancelledError only if the job is to end without a word in its row."""
        started = time.monotonic()
        held.deadline_at = started + held.job_type.deadline_s
        try:
            await held.job_type.handler(held.ctx)
        except PermanentError as failure:
            return _Failure(jobs.JobError(failure.code, failure.detail), permanent=True)
        except asyncio.CancelledError:
            if held.cancelled_for == "deadline":
                held.forget_cancellation()
                detail = f"The job ran longer than {held.job_type.deadline_s:g} s."
                return _Failure(jobs.JobError("deadline-exceeded", detail))
            if held.cancelled_for is not None:
                raise
            return _Failure(jobs.JobError("cancelled", "The handler was cancelled from within."))
        except Exception as failure:  # noqa: BLE001 - a handler may raise anything; it is stored in the row
            return _Failure(_describe(failure))
        finally:
            held.deadline_at = math.inf
            self._metrics.run[held.job.job_type].observe(time.monotonic() - started)
        return None

    async def _cancelled(self, held: HeldJob) -> None:
        _log.warning("job_cancelled", reason=held.cancelled_for)
        if held.cancelled_for != "stop":
            await self._end(held, "lost")

    async def _end(self, held: HeldJob, outcome: str) -> None:
        self._settled(held, outcome)
        await held.visit.leave()

    async def _fail_until_written(self, held: HeldJob, failure: "_Failure") -> None:
        """Write the failure; while the database is away try again, until the heartbeat gives the job up."""
        failures = 0
        status: jobs.Status | None = None
        while True:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    status = await self._fail(held, failure)
                break
            except DATABASE_ERRORS as problem:
                failures += 1
                _log.warning("fail_not_written", reason=f"{type(problem).__name__}: {problem}")
                await asyncio.sleep(backoff_s(failures, 0.05, 5.0))
            except _HookFailed:
                # Nobody renews the lock from now on, so it goes stale, and all of it is tried again.
                _log.exception("on_dead_failed")
                break
        outcome = {None: "lost", jobs.Status.DEAD_LETTER: "dead"}.get(status, "retried")
        _log.warning("job_failed", code=failure.error.code, detail=failure.error.detail, outcome=outcome)
        await self._end(held, outcome)

    async def _fail(self, held: HeldJob, failure: "_Failure") -> jobs.Status | None:
        delay_s = held.job_type.retry.delay_s(held.job.attempts)
        async with held.ctx.pool.acquire() as conn, conn.transaction():
            status = await jobs.fail(conn, held.job, failure.error, delay_s=delay_s, permanent=failure.permanent)
            if status is jobs.Status.DEAD_LETTER and held.job_type.on_dead is not None:
                try:
                    await held.job_type.on_dead(DeadJob(held.ctx.tenant, held.job, conn), failure.error)
                except Exception as error:
                    raise _HookFailed from error
        return status


class _HookFailed(Exception):
    """`on_dead` raised, whatever it was: the transaction is rolled back."""


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
