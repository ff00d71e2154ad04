"""The queue: jobs as rows, in the database of what they are about.

Producers `enqueue` inside their own transaction and ring (`nexarch.doorbell`) after the commit. Workers `claim`,
prove that they live with `heartbeat`, and end an attempt with `complete`, `fail`, `snooze` or `release`. People
`requeue`, `discard` and `cancel`. docs/queue.md tells the design. Three rules carry it:

- The row is the truth. A ring, a timer or a sweep only says where to look.
- A claim raises `lease`, and nothing lowers it. Whatever a worker does to a job it holds names (id, lease) and the
  status `processing`; a worker that lost its job therefore changes nothing, and learns it from the answer.
- Postgres tells the time. No statement takes a time from a worker's clock, only durations.

An attempt is counted at the claim, so a job that kills its worker runs out of attempts like any other.
"""

from nexarch.jobs.by_hand import JobEnded, JobNotDead, cancel, discard, requeue, requeue_all
from nexarch.jobs.claiming import WORKER_LOST, Outlook, bury_lost, claim, heartbeat, lost_jobs, next_due, reclaim
from nexarch.jobs.depth import Depth, depths
from nexarch.jobs.draining import Drained, complete_and_claim, reached
from nexarch.jobs.enqueueing import JobRefused, NewJob, enqueue, enqueue_many
from nexarch.jobs.listing import JobNotFound, get_job, list_attempts, list_jobs
from nexarch.jobs.pruning import Pruned, prune
from nexarch.jobs.rows import Attempt, ClaimedJob, Job, JobError, Queue, Status
from nexarch.jobs.schedules import begin_periods
from nexarch.jobs.settling import CANCELLED, Fate, RetryPolicy, complete, fail, release, snooze

__all__ = [
    "CANCELLED",
    "WORKER_LOST",
    "Attempt",
    "ClaimedJob",
    "Depth",
    "Drained",
    "Fate",
    "Job",
    "JobEnded",
    "JobError",
    "JobNotDead",
    "JobNotFound",
    "JobRefused",
    "NewJob",
    "Outlook",
    "Pruned",
    "Queue",
    "RetryPolicy",
    "Status",
    "begin_periods",
    "bury_lost",
    "cancel",
    "claim",
    "complete",
    "complete_and_claim",
    "depths",
    "discard",
    "enqueue",
    "enqueue_many",
    "fail",
    "get_job",
    "heartbeat",
    "list_attempts",
    "list_jobs",
    "lost_jobs",
    "next_due",
    "prune",
    "reached",
    "reclaim",
    "release",
    "requeue",
    "requeue_all",
    "snooze",
]
