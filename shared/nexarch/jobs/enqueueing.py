"""Putting jobs into a queue, in the caller's transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from nexarch.db import Connection
from nexarch.errors import Invalid
from nexarch.jobs.rows import Queue

# From the driver (a number that does not fit), from Postgres (NUL in a text), from the table's own rules.
_REFUSALS = (ValueError, asyncpg.DataError, asyncpg.CheckViolationError)


class JobRefused(Invalid):
    """A job that no queue can hold: NUL or a lone surrogate in its payload, a bad type, key or number."""

    code = "job-refused"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be: what `enqueue` takes one by one."""

    job_type: str
    payload: Mapping[str, Any]
    idempotency_key: str | None = None
    priority: int = 0
    max_attempts: int = 5
    delay_s: float = 0.0
    traceparent: str | None = None


async def enqueue(
    conn: Connection,
    job_type: str,
    payload: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    priority: int = 0,
    max_attempts: int = 5,
    delay_s: float = 0.0,
    traceparent: str | None = None,
    queue: Queue = Queue.DOCUMENTS,
) -> UUID:
    """Add a job and return its id; the id of the existing job if the idempotency key was used before.

    It stands or falls with the caller's transaction. A higher priority runs first; `delay_s` counts from the
    start of the transaction. Raises JobRefused.
    """
    sql = queue.sql("""
        INSERT INTO {jobs} (job_type, payload, idempotency_key, priority, max_attempts, available_at, traceparent)
        VALUES ($1, $2::text::jsonb, $3, $4, $5, now() + make_interval(secs => $6), $7)
        ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id
    """)
    text = _payload_json(payload)
    while True:  # a second round only if the job with this key is pruned between the two statements
        try:
            job_id: UUID | None = await conn.fetchval(
                sql, job_type, text, idempotency_key, priority, max_attempts, delay_s, traceparent
            )
        except _REFUSALS as error:
            raise JobRefused(f"The queue refuses this job: {_reason(error)}.") from error
        if job_id is None and idempotency_key is not None:
            job_id = (await _ids_by_key(conn, [idempotency_key], queue)).get(idempotency_key)
        if job_id is not None:
            return job_id


async def enqueue_many(conn: Connection, jobs: Sequence[NewJob], *, queue: Queue = Queue.DOCUMENTS) -> list[UUID]:
    """Add jobs in one statement and return their ids in the same order; see `enqueue`.

    Two callers may share keys: they insert in the order of the keys, so neither can deadlock the other.
    """
    sql = queue.sql("""
        INSERT INTO {jobs} (job_type, payload, idempotency_key, priority, max_attempts, available_at, traceparent)
        SELECT job_type, payload::jsonb, idempotency_key, priority, max_attempts,
            now() + make_interval(secs => delay_s), traceparent
        FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::integer[], $6::float8[], $7::text[])
            WITH ORDINALITY
            AS new (job_type, payload, idempotency_key, priority, max_attempts, delay_s, traceparent, position)
        ORDER BY idempotency_key, position
        ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id, idempotency_key
    """)
    columns = (
        [job.job_type for job in jobs],
        [_payload_json(job.payload) for job in jobs],
        [job.idempotency_key for job in jobs],
        [job.priority for job in jobs],
        [job.max_attempts for job in jobs],
        [job.delay_s for job in jobs],
        [job.traceparent for job in jobs],
    )
    try:
        added = await conn.fetch(sql, *columns)
    except _REFUSALS as error:
        raise JobRefused(f"The queue refuses one of these jobs: {_reason(error)}.") from error
    without_key = iter([row["id"] for row in added if row["idempotency_key"] is None])
    by_key: dict[str, UUID] = {row["idempotency_key"]: row["id"] for row in added if row["idempotency_key"]}
    missing = [job.idempotency_key for job in jobs if job.idempotency_key and job.idempotency_key not in by_key]
    if missing:
        by_key |= await _ids_by_key(conn, missing, queue)
    return [by_key[job.idempotency_key] if job.idempotency_key else next(without_key) for job in jobs]


async def _ids_by_key(conn: Connection, keys: Sequence[str], queue: Queue) -> dict[str, UUID]:
    sql = queue.sql("SELECT idempotency_key, id FROM {jobs} WHERE idempotency_key = ANY($1::text[])")
    return {row["idempotency_key"]: row["id"] for row in await conn.fetch(sql, keys)}


def _payload_json(payload: Mapping[str, Any]) -> str:
    """The payload as JSON text; JobRefused names what JSON or Postgres cannot hold."""
    try:
        text = json.dumps(dict(payload), ensure_ascii=False, allow_nan=False)
        text.encode()  # a lone surrogate has no UTF-8
    except (TypeError, ValueError, RecursionError) as error:
        raise JobRefused(f"The payload is not JSON: {type(error).__name__}.") from error
    if "\\u0000" in text and "\x00" in _all_text(payload):
        raise JobRefused("The payload holds a NUL character, which Postgres cannot store.")
    return text


def _all_text(value: object) -> str:
    """Every string in a JSON value, keys too."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "".join(_all_text(key) + _all_text(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "".join(_all_text(item) for item in value)
    return ""


def _reason(error: Exception) -> str:
    """The constraint or Postgres' sentence, without the row, which may hold what is nobody's business."""
    constraint = getattr(error, "constraint_name", None)
    return f"it breaks {constraint}" if constraint else str(error.args[0]).rstrip(".")
