"""The floor: the least that a queue on Postgres can do, as bare asyncpg loops.

Its table has the columns that the queue's design names and the two indexes that it cannot do without: no rules, no
index for lost or dead jobs, no fence, one job type.
"""

from collections.abc import Callable
from uuid import UUID

from nexarch.db import Connection

_TABLE = """
    CREATE TABLE floor_jobs (
        id              uuid        PRIMARY KEY DEFAULT uuidv7(),
        job_type        text        NOT NULL,
        payload         jsonb       NOT NULL,
        idempotency_key text,
        status          text        NOT NULL DEFAULT 'pending',
        priority        smallint    NOT NULL DEFAULT 0,
        attempts        integer     NOT NULL DEFAULT 0,
        max_attempts    integer     NOT NULL DEFAULT 5,
        available_at    timestamptz NOT NULL DEFAULT now(),
        locked_at       timestamptz,
        locked_by       text,
        lease           bigint      NOT NULL DEFAULT 0,
        last_error      jsonb,
        progress        smallint    NOT NULL DEFAULT 0,
        traceparent     text,
        created_at      timestamptz NOT NULL DEFAULT now(),
        updated_at      timestamptz NOT NULL DEFAULT now(),
        finished_at     timestamptz
    );
    CREATE UNIQUE INDEX floor_jobs_key ON floor_jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
    CREATE INDEX floor_jobs_due ON floor_jobs (priority DESC, available_at, id) WHERE status = 'pending';
"""
_INSERT = "INSERT INTO floor_jobs (job_type, payload) VALUES ('noop', $1::text::jsonb)"
_INSERT_MANY = """
    INSERT INTO floor_jobs (job_type, payload) SELECT 'noop', payload::jsonb FROM unnest($1::text[]) AS new (payload)
"""
_DUE = """
    due AS MATERIALIZED (
        SELECT id
        FROM floor_jobs
        WHERE status = 'pending' AND available_at <= now()
        ORDER BY priority DESC, available_at, id
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
"""
_CLAIM = """
    UPDATE floor_jobs
    SET status = 'processing', attempts = attempts + 1, lease = lease + 1, locked_at = now(),
        locked_by = 'floor', updated_at = now()
    WHERE id = ANY(ARRAY(SELECT id FROM due))
    RETURNING id, payload::text
"""
_COMPLETE = """
    UPDATE floor_jobs
    SET status = 'succeeded', finished_at = now(), locked_at = NULL, locked_by = NULL, updated_at = now()
    WHERE id = ANY($1::uuid[]) AND status = 'processing'
"""
_COMPLETE_AND_CLAIM = f"WITH done AS ({_COMPLETE.replace('$1', '$2')}), {_DUE} {_CLAIM}"


async def prepare(conn: Connection) -> None:
    """Make the table anew; plans as a careful user would have them."""
    await conn.execute("DROP TABLE IF EXISTS floor_jobs")
    await conn.execute(_TABLE)
    await conn.execute("SET plan_cache_mode = force_generic_plan")
    await conn.execute("SET enable_seqscan = off")


async def clear(conn: Connection) -> None:
    """Remove all rows."""
    await conn.execute("TRUNCATE floor_jobs")


async def enqueue(conn: Connection) -> None:
    """One job, committed."""
    await conn.execute(_INSERT, "{}")


async def enqueue_many(conn: Connection, number: int) -> None:
    """So many jobs in one statement."""
    await conn.execute(_INSERT_MANY, ["{}"] * number)


async def drain(conn: Connection, enter: Callable[[], None]) -> None:
    """Claim 100 and complete the 100 before in one statement, until nothing is left."""
    finished: list[UUID] = []
    while True:
        rows = await conn.fetch(_COMPLETE_AND_CLAIM, 100, finished)
        for _row in rows:
            enter()
        if not rows and not finished:
            return
        finished = [row["id"] for row in rows]


async def claim(conn: Connection) -> list[UUID]:
    """Claim what is due; ids."""
    return [row["id"] for row in await conn.fetch(f"WITH {_DUE} {_CLAIM}", 100)]


async def fill_with_finished(conn: Connection, number: int) -> None:
    """Add so many rows of jobs that are done."""
    sql = """
        INSERT INTO floor_jobs (job_type, payload, status, finished_at)
        SELECT 'noop', '{}', 'succeeded', now()
        FROM generate_series(1, $1::integer)
    """
    await conn.execute(sql, number)


async def complete(conn: Connection, ids: list[UUID]) -> None:
    """Complete them."""
    await conn.execute(_COMPLETE, ids)
