"""What the process holds from start to stop: each resource is one cleanup context."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from dms_worker.handlers import job_types
from dms_worker.keys import JOB_TYPES, SETTINGS, STORAGE
from dms_worker.sweep import KnownTenant
from dms_worker.worker import Worker, WorkerOptions
from nexarch import channels
from nexarch.http import DRAINING, METRICS
from nexarch.module import CORE
from nexarch.serve import background
from nexarch.tenant_module import DOORBELL, TENANTS, cache_wakes, check_bus, open_common_storage


async def storage(app: web.Application) -> AsyncIterator[None]:
    """The object store, the same as dms-ingest's."""
    async with open_common_storage(app, app[SETTINGS], writes=False) as app[STORAGE]:
        yield


async def worker(app: web.Application) -> AsyncIterator[None]:
    """The worker itself. It claims nothing more as soon as the service drains, while the listener still answers."""
    settings = app[SETTINGS]

    def tenant_changed(slug: str | None) -> None:
        app[TENANTS].forget(slug)
        work.look_at(slug)

    types = job_types(settings, app[CORE], app[STORAGE], app[TENANTS], app[METRICS])
    app[JOB_TYPES] = {job_type.name: job_type for job_type in types}
    work = Worker(
        types,
        bus_dsn=settings.bus_dsn.get_secret_value(),
        pool_for=app[TENANTS].pool,
        directory=lambda: _served_tenants(app),
        ring=app[DOORBELL].ring,
        registry=app[METRICS],
        options=WorkerOptions(
            concurrency=settings.concurrency,
            tenant_concurrency=settings.tenant_concurrency or max(1, settings.concurrency - 1),
            stale_after_s=settings.stale_after_s,
            grace_s=settings.grace_period_s,
        ),
        also_wakes={
            **cache_wakes(app),
            channels.TENANTS: tenant_changed,
            channels.FLAGS: lambda _flag: tenant_changed(None),
        },
    )

    check_bus(app, work.listener)
    async with background(app, "worker", work.run()):
        draining = asyncio.create_task(_stop_on_drain(app, work))
        yield
        await draining


async def _stop_on_drain(app: web.Application, work: Worker) -> None:
    await app[DRAINING].wait()
    await work.stop()


async def _served_tenants(app: web.Application) -> Sequence[KnownTenant]:
    return [
        KnownTenant(slug=tenant.slug, idle_s=tenant.idle_s)
        async for tenant in app[CORE].tenants()
        if tenant.status == "active"
    ]
