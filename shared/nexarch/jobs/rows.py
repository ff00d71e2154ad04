"""What a job is: its rows, and the table they stand in."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, LiteralString
from uuid import UUID

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MAX_DETAIL = 2_000  # characters; a traceback may be ten times as long
_MAX_TRACEBACK = 20_000


class Queue(StrEnum):
    """The tables of this shape: one in each tenant database, one in the registry.

    Beside each stand `job_attempts` and `job_schedules`, in the same database.
    """

    DOCUMENTS = "processing_jobs"
    NOTIFICATIONS = "notification_jobs"

    def sql(self, statement: LiteralString, *, wanted: str = "") -> str:
        """A statement on this queue's table, which the statement calls `{jobs}`; made once for each.

        Where it says `{wanted}` come rows of parameters: `nexarch.jobs.claiming.wanted_rows`.
        """
        return _with_table(self, statement, wanted)


@cache
def _with_table(queue: Queue, statement: str, wanted: str) -> str:
    return statement.replace("{jobs}", queue.value).replace("{wanted}", wanted)


class Status(StrEnum):
    """Where a job is. `failed` is given up by a person; what ran out of attempts is a dead letter."""

    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of a queue, as a person wants to see it."""

    id: UUID
    job_type: str
    payload: dict[str, Any]
    idempotency_key: str | None
    queued_key: str | None
    status: str
    priority: int
    attempts: int
    max_attempts: int
    available_at: datetime
    locked_at: datetime | None
    locked_by: str | None
    lease: int
    last_error: dict[str, Any] | None
    progress: int
    traceparent: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    cancel_requested_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that failed, or whose worker was lost."""

    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime
    error: dict[str, Any]


@dataclass(slots=True)
class ClaimedJob:
    """A job that the caller holds until it settles it, or loses it.

    Not frozen, and the payload is decoded at first use: tens of thousands are made in a second.
    """

    id: UUID
    lease: int
    job_type: str
    payload_json: str
    attempts: int
    max_attempts: int
    traceparent: str | None
    waited_s: float  # from the time it was due until the claim, by Postgres' clock
    due_at: float  # in Unix seconds, by the same clock

    @property
    def payload(self) -> dict[str, Any]:
        """The payload; ValueError or RecursionError for JSON that Postgres can hold and Python cannot."""
        value: dict[str, Any] = json.loads(self.payload_json)
        return value


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt failed: a code for programs, a sentence for people, the traceback for developers."""

    code: str
    detail: str
    traceback: str | None = None

    def as_json(self) -> str:
        """A form that Postgres stores whatever the exception said: no NUL, no lone surrogate, not too long."""
        shown = {
            "code": storable(self.code),
            "detail": storable(self.detail)[:_MAX_DETAIL],
            "traceback": storable(self.traceback)[-_MAX_TRACEBACK:] if self.traceback else None,
        }
        return json.dumps({name: value for name, value in shown.items() if value is not None})


def storable(text: str) -> str:
    """The text with what Postgres cannot hold (NUL, lone surrogates) replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)
