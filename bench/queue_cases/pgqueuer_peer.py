"""pgqueuer beside ours: on the same server, in a database of its own, driven as its documentation says."""

import time
from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode


async def install(dsn: str) -> None:
    """Make pgqueuer's tables."""
    conn = await asyncpg.connect(dsn)
    try:
        await Queries(AsyncpgDriver(conn)).install()
    finally:
        await conn.close()


async def drain_per_s(dsn: str, number: int, batch: int = 100) -> float:
    """Enqueue so many jobs that do nothing, then drain them; jobs per second until the last one is entered."""
    conn = await asyncpg.connect(dsn)
    try:
        await Queries(AsyncpgDriver(conn)).enqueue(["noop"] * number, [b"{}"] * number, [0] * number)
        peer = PgQueuer.from_asyncpg_connection(conn)
        entered = 0
        end = 0.0

        @peer.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal entered, end
            entered += 1
            end = time.perf_counter()

        begin = time.perf_counter()
        await peer.run(dequeue_timeout=timedelta(seconds=1), batch_size=batch, mode=QueueExecutionMode.drain)
        assert entered == number, (entered, number)
        return number / (end - begin)
    finally:
        await conn.close()
