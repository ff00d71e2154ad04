"""A worker on real databases: what the worker's tests and the worker processes that they kill have in common."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry

from dms_worker.job_types import JobType
from dms_worker.pools import SESSION
from dms_worker.sweep import KnownTenant
from dms_worker.worker import Worker, WorkerOptions
from nexarch.db import Connection, Pool, TypesOnceConnection, session_settings, set_codecs
from nexarch.doorbell import Doorbell
from nexarch.errors import NotFound

NEVER_S = 3600.0


class Tenants:
    """The tenants of a test, slug to address, with a pool for each."""

    def __init__(self, dsns: Mapping[str, str], *, armed: bool, longest_transaction_s: float) -> None:
        self._known = [KnownTenant(slug, 0.0 if armed else None) for slug in dsns]
        self._dsns = dict(dsns)
        self._longest_transaction_s = longest_transaction_s
        self._pools: dict[str, Pool] = {}

    async def list(self) -> Sequence[KnownTenant]:
        """All tenants, for the sweep."""
        return self._known

    @asynccontextmanager
    async def pool(self, slug: str) -> AsyncIterator[Pool]:
        """A tenant's pool, opened at first use."""
        if slug not in self._dsns:
            raise NotFound("There is no such tenant.")
        if slug not in self._pools:
            # Like TenantPools: a session that comes back is asked nothing, so no return waits for a dead line.
            self._pools[slug] = await asyncpg.create_pool(
                self._dsns[slug],
                min_size=0,
                max_size=8,
                command_timeout=30.0,
                init=set_codecs,
                connection_class=TypesOnceConnection,
                reset=_leave_as_it_is,
                server_settings=session_settings("tests-worker", self._longest_transaction_s) | SESSION,
            )
        yield self._pools[slug]

    async def close(self) -> None:
        """Close all pools, without waiting for connections in use."""
        for pool in self._pools.values():
            pool.terminate()
        await asyncio.sleep(0)


async def _leave_as_it_is(_conn: Connection) -> None:
    pass


@asynccontextmanager
async def working(
    job_types: Sequence[JobType],
    tenants: Mapping[str, str],
    bus_dsn: str,
    *,
    ring: Callable[[str], None] | None = None,
    registry: CollectorRegistry | None = None,
    armed: bool = False,
    longest_transaction_s: float = 300.0,
    **options: Any,  # noqa: ANN401 - the fields of WorkerOptions
) -> AsyncIterator[Worker]:
    """Run a worker, by default one whose sweep looks only at the start; stop it at the end."""
    known = Tenants(tenants, armed=armed, longest_transaction_s=longest_transaction_s)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(known.close)
        if ring is None:
            ring = (await stack.enter_async_context(Doorbell(bus_dsn, application_name="tests-bell"))).ring
        worker = Worker(
            job_types,
            bus_dsn=bus_dsn,
            pool_for=known.pool,
            directory=known.list,
            ring=ring,
            registry=registry or CollectorRegistry(),
            options=WorkerOptions(**({"sweep_interval_s": NEVER_S, "grace_s": 5.0} | options)),
        )
        await stack.enter_async_context(worker)
        yield worker
