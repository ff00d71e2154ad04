"""The faults, in the order in which they are done."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from faults.stack import Part, Service, Stack


@dataclass(frozen=True, slots=True)
class Times:
    """How long things last, in seconds."""

    away_s: float
    paused_s: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `do` returns when it is over, and what is left to do is the platform's."""

    name: str
    do: Callable[[Stack, Times], Awaitable[None]]


async def _kill(service: Service, stack: Stack, _times: Times) -> None:
    await stack.kill(service)


async def _restart_postgres(stack: Stack, _times: Times) -> None:
    await stack.restart_postgres()


async def _stop(part: Part, stack: Stack, times: Times) -> None:
    async with stack.stopped(part):
        await asyncio.sleep(times.away_s)


async def _pause(service: Service, stack: Stack, times: Times) -> None:
    async with stack.paused(service):
        await asyncio.sleep(times.paused_s)


async def _fill_disk(stack: Stack, times: Times) -> None:
    async with stack.full_disk():
        await asyncio.sleep(times.away_s)


async def _drop_bus(stack: Stack, _times: Times) -> None:
    assert await stack.drop_bus(), "nobody was on the bus"


FAULTS = (
    Fault("core-api killed", partial(_kill, "core-api")),
    Fault("dms-ingest killed", partial(_kill, "dms-ingest")),
    Fault("dms-worker killed", partial(_kill, "dms-worker")),
    Fault("alerter killed", partial(_kill, "alerter")),
    Fault("PostgreSQL restarted", _restart_postgres),
    Fault("PostgreSQL away", partial(_stop, "PostgreSQL")),
    Fault("object store away", partial(_stop, "object store")),
    Fault("core-api away", partial(_stop, "core-api")),
    Fault("staging disk full", _fill_disk),
    Fault("event bus dropped", _drop_bus),
    Fault("dms-ingest paused", partial(_pause, "dms-ingest")),
    Fault("dms-worker paused", partial(_pause, "dms-worker")),
)
