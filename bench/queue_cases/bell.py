"""What the doorbell costs a process that commits on eight connections."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from bench.queue_cases.report import median, ratio, report
from bench.queue_cases.stage import Stage, connected
from nexarch import channels, jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell

_CONNECTIONS = 8
_ROUNDS = 7


async def bell_cost(stage: Stage, *, seconds: float) -> None:
    """Commits a second with and without a ring after each, to as many tenants, with somebody who listens."""
    slugs = await stage.add_tenants("bell", _CONNECTIONS)
    silent: list[float] = []
    ringing: list[float] = []
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(connected(stage.tenant_dsn(slug))) for slug in slugs]
        listening = await stack.enter_async_context(connected(stage.bus_dsn))
        await listening.add_listener(channels.JOBS, lambda *_: None)
        bell = await stack.enter_async_context(Doorbell(stage.bus_dsn, application_name="bench-bell"))
        await _commits_per_s(conns, slugs, bell.ring, seconds)
        for _ in range(_ROUNDS):
            silent.append(await _commits_per_s(conns, slugs, lambda _slug: None, seconds))
            ringing.append(await _commits_per_s(conns, slugs, bell.ring, seconds))
    report(
        "bell_cost",
        ratio=ratio(ringing, silent),
        with_bell_per_s=round(median(ringing)),
        without_bell_per_s=round(median(silent)),
    )


async def _commits_per_s(
    conns: Sequence[Connection], slugs: Sequence[str], ring: Callable[[str], None], seconds: float
) -> float:
    end = time.perf_counter() + seconds
    commits = 0

    async def produce(conn: Connection, slug: str) -> None:
        nonlocal commits
        while time.perf_counter() < end:
            await jobs.enqueue(conn, "noop", {})
            ring(slug)
            commits += 1

    begin = time.perf_counter()
    await asyncio.gather(*(produce(conn, slug) for conn, slug in zip(conns, slugs, strict=True)))
    return commits / (time.perf_counter() - begin)
