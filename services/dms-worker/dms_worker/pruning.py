"""Deleting many rows in steps, so that no step keeps others waiting."""

import asyncio
from collections.abc import Awaitable, Callable

from dms_worker.job_types import JobContext
from nexarch.db import Connection

BATCH = 1000  # rows of a step
_PAUSE_S = 0.02  # between two steps: what people wait for goes first


async def in_steps(ctx: JobContext, prune: Callable[[Connection, float, int], Awaitable[int]], kept_s: float) -> int:
    """Call `prune(conn, kept_s, most)` in one transaction after another until it deletes fewer than that; returns all.

    What is cut short goes on in the next attempt or period.
    """
    deleted = 0
    while True:
        async with ctx.pool.acquire() as conn, conn.transaction():
            step = await prune(conn, kept_s, BATCH)
        deleted += step
        if step < BATCH:
            return deleted
        await asyncio.sleep(_PAUSE_S)
