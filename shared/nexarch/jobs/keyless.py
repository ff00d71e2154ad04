"""Jobs without a key: nothing that is there already can stand for one, so an insert is all, with an id made here."""

import os
import random
import struct
import time
from datetime import datetime
from uuid import UUID

from asyncpg.pgproto import pgproto

from nexarch.db import Connection
from nexarch.jobs.rows import Queue

_VERSION_7 = 0x7000
_VARIANT = 1 << 63
_RANDOM = (1 << 62) - 1


async def insert_due(
    conn: Connection,
    payload: str,
    job_type: str,
    priority: int,
    max_attempts: int,
    traceparent: str | None,
    queue: Queue,
) -> UUID:
    """Insert a job with this payload, a JSON object, that is due at once, as nearly all are; its id."""
    sql = queue.sql("""
        INSERT INTO {jobs} (id, job_type, payload, priority, max_attempts, traceparent)
        VALUES ($1, $2::text, $3::text::jsonb, $4, $5::integer, $6::text)
    """)
    job_id = uuid_of_now()
    await conn.execute(sql, job_id, job_type, payload, priority, max_attempts, traceparent)
    return job_id


async def insert_one(
    conn: Connection,
    payload: str,
    *,
    job_type: str,
    priority: int,
    max_attempts: int,
    delay_s: float,
    run_at: datetime | None,
    traceparent: str | None,
    queue: Queue,
) -> UUID:
    """Insert a job with this payload, a JSON object, that is due then; its id."""
    sql = queue.sql("""
        INSERT INTO {jobs} (id, job_type, payload, priority, max_attempts, available_at, traceparent)
        VALUES ($1, $2::text, $3::text::jsonb, $4, $5::integer,
            coalesce($6, now() + make_interval(secs => $7)), $8::text)
    """)
    job_id = uuid_of_now()
    await conn.execute(sql, job_id, job_type, payload, priority, max_attempts, run_at, delay_s, traceparent)
    return job_id


async def insert_alike(
    conn: Connection,
    number: int,
    payloads: str,
    *,
    job_type: str,
    priority: int,
    max_attempts: int,
    delay_s: float,
    run_at: datetime | None,
    traceparent: str | None,
    queue: Queue,
) -> list[UUID]:
    """Insert jobs that differ in their payload only, so many, given as one JSON array; their ids in the same order."""
    sql = queue.sql("""
        INSERT INTO {jobs} (id, job_type, payload, priority, max_attempts, available_at, traceparent)
        SELECT id, $3::text, payload::jsonb, $4::smallint, $5::integer,
            coalesce($6::timestamptz, now() + make_interval(secs => $7::float8)), $8::text
        FROM ROWS FROM (unnest($1::uuid[]), json_array_elements($2::text::json)) AS new (id, payload)
    """)
    ids = uuids_in_order(number)
    await conn.execute(sql, ids, payloads, job_type, priority, max_attempts, run_at, delay_s, traceparent)
    return ids


def uuid_of_now() -> UUID:
    """One UUIDv7; greater than those made here before, as long as the clock runs forward. See `uuids_in_order`."""
    at = time.time_ns() * 4096 // 1_000_000
    high = (at >> 12) << 16 | _VERSION_7 | at & 0xFFF
    low = random.getrandbits(62) | _VARIANT
    return pgproto.UUID((high << 64 | low).to_bytes(16))


def uuids_in_order(number: int) -> list[UUID]:
    """So many UUIDv7 (RFC 9562, section 6.2, method 3), each greater than the one before.

    Made here, because uuidv7() in Postgres may open the system's source of randomness for each row, which took
    40 % of the insert. The time in them is of this machine's clock: it orders jobs that are due at
    the same moment and decides nothing else.
    """
    # Milliseconds, and 12 bits of their fraction: the next id is 244 ns later, as in Postgres.
    first = time.time_ns() * 4096 // 1_000_000
    random_parts = struct.unpack(f">{number}Q", os.urandom(8 * number))
    halves: list[int] = []
    for at, random_part in zip(range(first, first + number), random_parts, strict=True):
        halves += ((at >> 12) << 16 | _VERSION_7 | at & 0xFFF, random_part & _RANDOM | _VARIANT)
    raw = struct.pack(f">{2 * number}Q", *halves)
    return [pgproto.UUID(raw[start : start + 16]) for start in range(0, len(raw), 16)]
