"""Jobs with a `queued_key`: of those that wait, one at most has it.

An enqueue finds the waiting one. What comes back into the queue (a retry, a requeue) and meets a waiting one folds
into it: it ends, and the other, which will see all that it would have seen, does the work.
"""

import asyncpg

from nexarch.db import Connection
from nexarch.jobs.rows import JobError

SUPERSEDED = JobError("superseded", "Another job with the same key was waiting, and took over.")

_ROUNDS = 5


async def once_more_if_a_twin_came(conn: Connection, sql: str, *args: object) -> list[asyncpg.Record]:
    """Run a statement that folds jobs into twins; again if one was committed between its look and its write."""
    for _ in range(_ROUNDS - 1):
        try:
            async with conn.transaction():  # a savepoint, if the caller is in one already
                return await conn.fetch(sql, *args)
        except asyncpg.UniqueViolationError:
            continue
    return await conn.fetch(sql, *args)
