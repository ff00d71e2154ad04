"""The queue against a model of it: whatever is done in whatever order, both agree."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.jobs import ClaimedJob, JobError, NewJob
from support.database import TenantDatabase
from support.queue_model import STALE_S, Model, ModelJob

pytestmark = pytest.mark.database

# A longer run: NEXARCH_MODEL_RUNS=2000.
RUNS = int(os.environ.get("NEXARCH_MODEL_RUNS", "60"))
TYPES = ("one", "two")
BROKEN = JobError("broken", "It broke.")

T = TypeVar("T")


new_jobs = st.builds(
    NewJob,
    job_type=st.sampled_from(TYPES),
    payload=st.just({}),
    priority=st.sampled_from([0, 0, 1]),
    max_attempts=st.sampled_from([3, 1, 2]),
    delay_s=st.sampled_from([0.0, 0.0, 0.0, 30.0]),
    idempotency_key=st.sampled_from([None, None, None, "a"]),
).flatmap(
    lambda job: st.sampled_from([None, "x", "x", "x"]).map(
        lambda key: job if job.idempotency_key else replace(job, queued_key=key)
    )
)
subsets = st.just(2**16 - 1) | st.integers(0, 2**16)


class QueueMachine(RuleBasedStateMachine):
    """Does the same to the queue and to the model. Claims are kept for ever, so most of those used are lost ones."""

    def __init__(self, runner: asyncio.Runner, conn: Connection) -> None:
        super().__init__()
        self._runner = runner
        self._conn = conn
        self._model = Model()
        self._claims: list[ClaimedJob] = []
        # Its now() stands still, so time passes only where the machine says so.
        self._transaction = conn.transaction()
        self._run(self._transaction.start())

    def teardown(self) -> None:
        self._run(self._transaction.rollback())

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def _some(self, items: Sequence[T], bits: int) -> list[T]:
        """The last few, each taken or not by its bit."""
        return [item for position, item in enumerate(reversed(items[-16:])) if bits >> position & 1]

    def _one(self, number: int) -> ModelJob:
        """One of the last few, more often one that may still change."""
        last = list(self._model.jobs.values())[-12:]
        open_ones = [job for job in last if job.status in {"pending", "processing", "dead_letter"}]
        some = open_ones or last if number % 4 else last
        return some[number % len(some)]

    def _has_jobs(self) -> bool:
        return bool(self._model.jobs)

    def _has_claims(self) -> bool:
        return bool(self._claims)

    @rule(job=new_jobs)
    def enqueue(self, job: NewJob) -> None:
        keys = {"idempotency_key": job.idempotency_key, "queued_key": job.queued_key}
        job_id = self._run(
            jobs.enqueue(
                self._conn,
                job.job_type,
                job.payload,
                priority=job.priority,
                max_attempts=job.max_attempts,
                delay_s=job.delay_s,
                **keys,  # type: ignore[arg-type]
            )
        )
        self._model.enqueue(job, job_id)

    @rule(job=new_jobs)
    def enqueue_and_claim(self, job: NewJob) -> None:
        """So that many jobs run, also several of one key."""
        self.enqueue(job)
        self.claim(4, 4)

    @rule(new=st.lists(new_jobs, min_size=1, max_size=6))
    def enqueue_many(self, new: list[NewJob]) -> None:
        job_ids = self._run(jobs.enqueue_many(self._conn, new))
        assert len(job_ids) == len(new)
        for job, job_id in zip(new, job_ids, strict=True):
            self._model.enqueue(job, job_id)

    @rule(one=st.integers(1, 4), two=st.integers(0, 4))
    def claim(self, one: int, two: int) -> None:
        limits = {"one": one, "two": two}
        claimed = self._run(jobs.claim(self._conn, "worker", limits))
        assert {job.id for job in claimed} == self._model.claim(limits)
        for job in claimed:
            assert (job.lease, job.attempts) == (self._model.jobs[job.id].lease, self._model.jobs[job.id].attempts)
        self._claims += claimed

    @precondition(_has_claims)
    @rule(bits=subsets, progress=st.sampled_from([None, 50]))
    def heartbeat(self, bits: int, progress: int | None) -> None:
        claims = self._some(self._claims, bits)
        answer = self._run(jobs.heartbeat(self._conn, claims, [progress] * len(claims)))
        held = self._model.held(claims)
        assert answer == {job.id: job.cancelled for job in held}
        for job in held:
            job.locked_at = self._model.now
            job.progress = job.progress if progress is None else progress

    @precondition(_has_claims)
    @rule(bits=subsets)
    def complete(self, bits: int) -> None:
        claims = self._some(self._claims, bits)
        answer = self._run(jobs.complete(self._conn, claims))
        held = self._model.held(claims)
        assert answer == {job.id for job in held}
        for job in held:
            job.status, job.progress, job.locked_at = "succeeded", 100, None

    @rule(bits=subsets, one=st.integers(0, 4), two=st.integers(0, 4))
    def complete_and_claim(self, bits: int, one: int, two: int) -> None:
        claims, limits = self._some(self._claims, bits), {"one": one, "two": two}
        lost, claimed = self._run(jobs.complete_and_claim(self._conn, claims, "worker", limits))
        held = self._model.held(claims)
        assert lost == {claim.id for claim in claims} - {job.id for job in held}
        assert {job.id for job in claimed} == self._model.claim(limits)
        for job in held:
            job.status, job.progress, job.locked_at = "succeeded", 100, None
        self._claims += claimed

    @precondition(_has_claims)
    @rule(back=st.integers(0, 15), delay_s=st.sampled_from([0.0, 30.0]), permanent=st.booleans())
    def fail(self, back: int, delay_s: float, permanent: bool) -> None:
        claim = self._claims[-1 - back % len(self._claims)]
        fate = self._run(jobs.fail(self._conn, claim, BROKEN, delay_s=delay_s, permanent=permanent))
        fates = self._model.put_back(
            self._model.held([claim]), delay_s=delay_s, permanent=permanent, counts=True, error=True
        )
        assert fate == fates.get(claim.id)

    @precondition(_has_claims)
    @rule(back=st.integers(0, 15))
    def snooze(self, back: int) -> None:
        claim = self._claims[-1 - back % len(self._claims)]
        fate = self._run(jobs.snooze(self._conn, claim, 30.0))
        fates = self._model.put_back(self._model.held([claim]), delay_s=30.0, counts=False, error=False)
        assert fate == fates.get(claim.id)

    @precondition(_has_claims)
    @rule(bits=subsets)
    def release(self, bits: int) -> None:
        claims = self._some(self._claims, bits)
        fates = self._run(jobs.release(self._conn, claims))
        held = self._model.held(claims)
        assert fates == self._model.put_back(held, delay_s=None, counts=False, error=False)

    @rule(seconds=st.sampled_from([5.0, 31.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        """Locks expire, delays end."""
        sql = """
            UPDATE processing_jobs
            SET available_at = available_at - make_interval(secs => $1),
                locked_at = locked_at - make_interval(secs => $1)
        """
        self._run(self._conn.execute(sql, seconds))
        self._model.now += seconds

    @rule()
    def reclaim(self) -> None:
        stale = [job for job in self._model.stale() if job.attempts < job.max_attempts and not job.cancelled]
        number = self._run(jobs.reclaim(self._conn, TYPES, STALE_S))
        assert number == len(stale)
        self._model.put_back(stale, delay_s=0.0, counts=True, error=True)
        for job in stale:
            job.due = self._due(job)  # by chance, but:
            latest = self._model.now + (STALE_S if job.attempts > 1 else 0.0)
            assert self._model.now <= job.due <= latest

    def _due(self, job: ModelJob) -> float:
        sql = "SELECT extract(epoch FROM available_at - now())::float8 FROM processing_jobs WHERE id = $1"
        seconds: float = self._run(self._conn.fetchval(sql, job.id))
        return self._model.now + seconds

    @rule()
    def bury(self) -> None:
        lost = [job for job in self._model.stale() if job.attempts >= job.max_attempts or job.cancelled]
        found = self._run(jobs.lost_jobs(self._conn, TYPES, STALE_S))
        assert {claim.id for claim in found} == {job.id for job in lost}
        for claim in found:
            fate = self._run(jobs.bury_lost(self._conn, claim, STALE_S))
            fates = self._model.put_back([self._model.jobs[claim.id]], delay_s=None, counts=True, error=True)
            assert fate == fates[claim.id]

    @precondition(_has_jobs)
    @rule(number=st.integers(0, 1000))
    def cancel(self, number: int) -> None:
        job = self._one(number)
        if job.status not in {"pending", "processing"}:
            with pytest.raises(jobs.JobEnded):
                self._run(jobs.cancel(self._conn, job.id))
            return
        self._run(jobs.cancel(self._conn, job.id))
        if job.status == "pending":
            job.status = "failed"
        else:
            job.cancelled = True

    @precondition(_has_jobs)
    @rule(number=st.integers(0, 1000))
    def requeue(self, number: int) -> None:
        job = self._one(number)
        if job.status != "dead_letter":
            with pytest.raises(jobs.JobNotDead):
                self._run(jobs.requeue(self._conn, job.id))
            return
        self._run(jobs.requeue(self._conn, job.id))
        self._model.revive([job])

    @rule(job_type=st.sampled_from(TYPES))
    def requeue_all(self, job_type: str) -> None:
        dead = [job for job in self._model.of("dead_letter") if job.job_type == job_type]
        assert self._run(jobs.requeue_all(self._conn, job_type)) == len(dead)
        self._model.revive(dead)

    @precondition(_has_jobs)
    @rule(number=st.integers(0, 1000))
    def discard(self, number: int) -> None:
        job = self._one(number)
        if job.status != "dead_letter":
            with pytest.raises(jobs.JobNotDead):
                self._run(jobs.discard(self._conn, job.id))
            return
        self._run(jobs.discard(self._conn, job.id))
        job.status = "failed"

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        sql = """
            SELECT id, status, attempts, lease, progress, cancel_requested_at IS NOT NULL AND status = 'processing',
                round(extract(epoch FROM available_at - now())::numeric, 3)::float8,
                extract(epoch FROM locked_at - now())::float8,
                (SELECT count(*) FROM job_attempts WHERE job_id = processing_jobs.id)
            FROM processing_jobs
        """
        rows = {row[0]: tuple(row)[1:] for row in self._run(self._conn.fetch(sql))}
        now = self._model.now
        assert rows == {
            job.id: (
                job.status,
                job.attempts,
                job.lease,
                job.progress,
                job.cancelled and job.status == "processing",
                round(job.due - now, 3),
                None if job.locked_at is None else job.locked_at - now,
                job.failed_attempts,
            )
            for job in self._model.jobs.values()
        }

    @invariant()
    def the_outlook_is_as_the_model_says(self) -> None:
        outlook = self._run(jobs.next_due(self._conn, TYPES, STALE_S))
        now = self._model.now
        due = [job.due - now for job in self._model.of("pending")]
        stale = [(job.locked_at or 0.0) + STALE_S - now for job in self._model.of("processing")]
        assert outlook.due_in_s == (pytest.approx(max(0.0, min(due)), abs=0.001) if due else None)
        assert outlook.stale_in_s == (max(0.0, min(stale)) if stale else None)


def test_the_queue_does_what_its_model_does_in_whatever_order(shared_tenant: TenantDatabase) -> None:
    how = settings(
        max_examples=RUNS,
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with asyncio.Runner() as runner:
        conn = runner.run(connect(shared_tenant.dsn, application_name="tests"))
        run_state_machine_as_test(lambda: QueueMachine(runner, conn), settings=how)  # type: ignore[arg-type]
        runner.run(conn.close())


async def test_a_job_given_back_does_not_fold_into_a_newer_one_that_ends_with_it(tenant_conn: Connection) -> None:
    older_id = await jobs.enqueue(tenant_conn, "one", {}, queued_key="x")
    (older,) = await jobs.claim(tenant_conn, "worker", {"one": 1})
    newer_id = await jobs.enqueue(tenant_conn, "one", {}, queued_key="x")
    (newer,) = await jobs.claim(tenant_conn, "worker", {"one": 1})
    await jobs.cancel(tenant_conn, newer_id)

    fates = await jobs.release(tenant_conn, [older, newer])

    assert fates == {older_id: "queued", newer_id: "cancelled"}
