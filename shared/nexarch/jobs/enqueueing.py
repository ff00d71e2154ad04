"""Putting jobs into a queue, in the caller's transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from nexarch.db import Connection
from nexarch.errors import Invalid
from nexarch.jobs.keyless import insert_alike, insert_due, insert_one
from nexarch.jobs.rows import Queue

# From the driver (a number that does not fit), from Postgres (NUL in a text), from the table's own rules.
_REFUSALS = (ValueError, asyncpg.DataError, asyncpg.CheckViolationError)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


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
    queued_key: str | None = None
    run_at: datetime | None = None


_all_but_payload = attrgetter(*(field.name for field in fields(NewJob) if field.name != "payload"))


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
    queued_key: str | None = None,
    run_at: datetime | None = None,
    queue: Queue = Queue.DOCUMENTS,
) -> UUID:
    """Add a job and return its id, or the id of the job that has its key already, which stays as it is.

    It stands or falls with the caller's transaction. A higher priority runs first; `delay_s` counts from the
    start of the transaction, or `run_at` says when. Raises JobRefused. At most one of two keys:

    - `idempotency_key` is unique for ever: one job, whatever became of it, until it is pruned.
    - `queued_key` is unique among the jobs that wait: what is enqueued while one runs makes one more run, and the
      one that waits is not begun before the caller's transaction has ended, so it sees what the caller wrote.
    """
    text = _payload_json(payload)
    due_at = _aware(run_at)
    try:
        if idempotency_key is None and queued_key is None:
            if due_at is None and not delay_s:
                return await insert_due(conn, text, job_type, priority, max_attempts, traceparent, queue)
            return await insert_one(
                conn,
                text,
                job_type=job_type,
                priority=priority,
                max_attempts=max_attempts,
                delay_s=delay_s,
                run_at=due_at,
                traceparent=traceparent,
                queue=queue,
            )
        columns = (job_type, text, idempotency_key, queued_key, priority, max_attempts, due_at, delay_s, traceparent)
        while True:  # a second round only if the job with this key is pruned or claimed between the two statements
            job_id = await _insert_keyed(conn, columns, queue)
            if job_id is None and idempotency_key is not None:
                job_id = (await _ids_by_key(conn, [idempotency_key], queue)).get(idempotency_key)
            if job_id is None and queued_key is not None:
                job_id = (await _waiting_by_key(conn, [queued_key], queue)).get(queued_key)
            if job_id is not None:
                return job_id
    except _REFUSALS as error:
        raise JobRefused(f"The queue refuses this job: {_reason(error)}.") from error


async def _insert_keyed(conn: Connection, columns: tuple[object, ...], queue: Queue) -> UUID | None:
    """Insert a job unless its key is there; its id, or None."""
    sql = queue.sql("""
        INSERT INTO {jobs} (job_type, payload, idempotency_key, queued_key, priority, max_attempts, available_at,
            traceparent)
        VALUES ($1::text, $2::text::jsonb, $3::text, $4::text, $5, $6::integer,
            coalesce($7, now() + make_interval(secs => $8)), $9::text)
        ON CONFLICT DO NOTHING
        RETURNING id
    """)
    job_id: UUID | None = await conn.fetchval(sql, *columns)
    return job_id


async def enqueue_many(conn: Connection, jobs: Sequence[NewJob], *, queue: Queue = Queue.DOCUMENTS) -> list[UUID]:
    """Add jobs in one statement and return their ids in the same order; see `enqueue`.

    Two callers may share keys: they insert in the order of the keys, so neither can deadlock the other.
    """
    if len(set(map(_all_but_payload, jobs))) == 1 and jobs[0].idempotency_key is None and jobs[0].queued_key is None:
        return await _insert_alike(conn, jobs, queue)
    plain = [job for job in jobs if _key(job) is None]
    keyed = {key: job for job in reversed(jobs) if (key := _key(job)) is not None}  # of equal keys the first
    by_key: dict[_Key, UUID] = {}
    without_key: list[UUID] = []
    missing = list(keyed.values())
    while plain or missing:
        for job_id, key in await _insert_many(conn, [*plain, *missing], queue):
            if key is None:
                without_key.append(job_id)
            else:
                by_key[key] = job_id
        for_ever = [key.for_ever for key in keyed.keys() - by_key.keys() if key.for_ever is not None]
        if for_ever:
            by_key |= {_Key(key, None): job_id for key, job_id in (await _ids_by_key(conn, for_ever, queue)).items()}
        queued = sorted(key.queued for key in keyed.keys() - by_key.keys() if key.queued is not None)
        if queued:
            by_key |= {_Key(None, key): job_id for key, job_id in (await _waiting_by_key(conn, queued, queue)).items()}
        # Left over is only what was pruned or claimed between the two statements.
        plain, missing = [], [job for key, job in keyed.items() if key not in by_key]
    ids = iter(without_key)
    return [next(ids) if (key := _key(job)) is None else by_key[key] for job in jobs]


async def _insert_alike(conn: Connection, jobs: Sequence[NewJob], queue: Queue) -> list[UUID]:
    like = jobs[0]
    try:
        return await insert_alike(
            conn,
            len(jobs),
            _as_json([dict(job.payload) for job in jobs]),
            job_type=like.job_type,
            priority=like.priority,
            max_attempts=like.max_attempts,
            delay_s=like.delay_s,
            run_at=_aware(like.run_at),
            traceparent=like.traceparent,
            queue=queue,
        )
    except _REFUSALS as error:
        raise JobRefused(f"The queue refuses one of these jobs: {_reason(error)}.") from error


class _Key(NamedTuple):
    for_ever: str | None
    queued: str | None


def _key(job: NewJob) -> _Key | None:
    return _Key(job.idempotency_key, job.queued_key) if job.idempotency_key or job.queued_key else None


async def _insert_many(conn: Connection, jobs: Sequence[NewJob], queue: Queue) -> Iterable[tuple[UUID, _Key | None]]:
    """Insert what no present key forbids; the ids, those without a key in the order given."""
    sql = queue.sql("""
        INSERT INTO {jobs} (job_type, payload, idempotency_key, queued_key, priority, max_attempts, available_at,
            traceparent)
        SELECT job_type, payload::jsonb, idempotency_key, queued_key, priority, max_attempts,
            coalesce(run_at, now() + make_interval(secs => delay_s)), traceparent
        FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::integer[],
                $7::timestamptz[], $8::float8[], $9::text[])
            WITH ORDINALITY
            AS new (job_type, payload, idempotency_key, queued_key, priority, max_attempts, run_at, delay_s,
                traceparent, position)
        ORDER BY idempotency_key, queued_key, position
        ON CONFLICT DO NOTHING
        RETURNING id, idempotency_key, queued_key
    """)
    columns = (
        [job.job_type for job in jobs],
        [_payload_json(job.payload) for job in jobs],
        [job.idempotency_key for job in jobs],
        [job.queued_key for job in jobs],
        [job.priority for job in jobs],
        [job.max_attempts for job in jobs],
        [_aware(job.run_at) for job in jobs],
        [job.delay_s for job in jobs],
        [job.traceparent for job in jobs],
    )
    try:
        added = await conn.fetch(sql, *columns)
    except _REFUSALS as error:
        raise JobRefused(f"The queue refuses one of these jobs: {_reason(error)}.") from error
    return [(job_id, _Key(*key) if any(key) else None) for job_id, *key in added]


async def _ids_by_key(conn: Connection, keys: Sequence[str], queue: Queue) -> dict[str, UUID]:
    sql = queue.sql("SELECT idempotency_key, id FROM {jobs} WHERE idempotency_key = ANY($1::text[])")
    return {row["idempotency_key"]: row["id"] for row in await conn.fetch(sql, keys)}


async def _waiting_by_key(conn: Connection, keys: Sequence[str], queue: Queue) -> dict[str, UUID]:
    """The jobs that wait with these keys, kept from being claimed until the caller's transaction ends.

    Without the lock a worker could begin one before the caller's own rows are committed, and miss them.
    """
    sql = queue.sql("""
        SELECT queued_key, id
        FROM {jobs}
        WHERE queued_key = ANY($1::text[]) AND status = 'pending'
        ORDER BY queued_key
        FOR SHARE
    """)
    return {row["queued_key"]: row["id"] for row in await conn.fetch(sql, keys)}


def _aware(run_at: datetime | None) -> datetime | None:
    """The time itself; JobRefused for one without a zone, which could mean anything."""
    if run_at is not None and run_at.tzinfo is None:
        raise JobRefused("The time `run_at` has no zone.")
    return run_at


def _payload_json(payload: Mapping[str, Any]) -> str:
    return _as_json(dict(payload))


def _as_json(value: dict[str, Any] | list[dict[str, Any]]) -> str:
    """One payload or many as JSON text; JobRefused names what JSON or Postgres cannot hold."""
    try:
        text = _encoder.encode(value)
        if not text.isascii():
            text.encode()  # a lone surrogate has no UTF-8
    except (TypeError, ValueError, RecursionError) as error:
        raise JobRefused(f"The payload is not JSON: {type(error).__name__}.") from error
    if "\\u0000" in text and "\x00" in _all_text(value):
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
