"""A model of the queue: what may happen to a job, whatever is done in whatever order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from nexarch.jobs import ClaimedJob, NewJob

STALE_S = 60.0


@dataclass(slots=True)
class ModelJob:
    """A job as the model sees it; times are seconds on the model's clock."""

    id: UUID
    job_type: str
    due: float
    priority: int = 0
    max_attempts: int = 5
    for_ever_key: str | None = None
    queued_key: str | None = None
    status: str = "pending"
    attempts: int = 0
    lease: int = 0
    progress: int = 0
    locked_at: float | None = None
    cancelled: bool = False
    failed_attempts: int = 0


class Model:
    """The rules of the queue, with no thought of speed or of two at a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[UUID, ModelJob] = {}

    def enqueue(self, new: NewJob, job_id: UUID) -> None:
        """`job_id` is the answer of the queue: a job that is there for its key, else a new one."""
        for job in self.jobs.values():
            same_for_ever = new.idempotency_key is not None and job.for_ever_key == new.idempotency_key
            same_queued = new.queued_key is not None and job.queued_key == new.queued_key and job.status == "pending"
            if same_for_ever or same_queued:
                assert job_id == job.id
                return
        assert job_id not in self.jobs
        self.jobs[job_id] = ModelJob(
            job_id,
            new.job_type,
            self.now + new.delay_s,
            new.priority,
            new.max_attempts,
            new.idempotency_key,
            new.queued_key,
        )

    def claim(self, limits: dict[str, int]) -> set[UUID]:
        claimed = set()
        for job_type, limit in limits.items():
            due = [job for job in self.of("pending") if job.job_type == job_type and job.due <= self.now]
            for job in sorted(due, key=lambda job: (-job.priority, job.due, job.id))[:limit]:
                job.status, job.locked_at = "processing", self.now
                job.attempts += 1
                job.lease += 1
                claimed.add(job.id)
        return claimed

    def of(self, *statuses: str) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.status in statuses]

    def held(self, claims: Iterable[ClaimedJob]) -> list[ModelJob]:
        """Those of the claims that are still good."""
        jobs_of = [(self.jobs[claim.id], claim.lease) for claim in claims]
        return [job for job, lease in jobs_of if job.status == "processing" and job.lease == lease]

    def stale(self) -> list[ModelJob]:
        return [job for job in self.of("processing") if (job.locked_at or 0.0) < self.now - STALE_S]

    def back(self, ended: Sequence[ModelJob]) -> dict[UUID, str]:
        """Queue them; of those with one queued key the newest, and none if another waits."""
        waiting = {job.queued_key for job in self.of("pending")} - {None}
        for job in sorted(ended, key=lambda job: job.id, reverse=True):
            job.locked_at = None
            job.status = "failed" if job.queued_key in waiting else "pending"
            waiting |= {job.queued_key} - {None}
        return {job.id: "folded" if job.status == "failed" else "queued" for job in ended}

    def put_back(
        self, held: Sequence[ModelJob], *, delay_s: float | None, permanent: bool = False, counts: bool, error: bool
    ) -> dict[UUID, str]:
        fates = {}
        again = []
        for job in held:
            job.failed_attempts += error
            if delay_s is not None:
                job.due = self.now + delay_s
            if job.cancelled or permanent or (counts and job.attempts >= job.max_attempts):
                job.status = "failed" if job.cancelled else "dead_letter"
                job.locked_at = None
                fates[job.id] = "cancelled" if job.cancelled else "dead"
            else:
                again.append(job)
            job.attempts -= not counts
        return fates | self.back(again)

    def revive(self, dead: Sequence[ModelJob]) -> None:
        for job in dead:
            job.attempts, job.progress, job.due, job.cancelled = 0, 0, self.now, False
        self.back(dead)
