"""What the process holds from start to stop: each resource is one cleanup context that sets its keys."""

from collections.abc import AsyncIterator
from functools import partial
from uuid import UUID

from aiohttp import web

from dms_ingest.admission import Admission
from dms_ingest.completing import Completer
from dms_ingest.ending import Sweep
from dms_ingest.keys import (
    COMPLETER,
    DOWNLOAD_SEATS,
    NEW_BUCKETS,
    READINGS,
    RECEIVER,
    SETTINGS,
    STAGING,
    STORAGE,
    TUS,
    UPLOAD_SEATS,
    USAGE,
)
from dms_ingest.metrics import UploadMetrics, count_seats
from dms_ingest.new_buckets import NewBuckets
from dms_ingest.page_cache import share_of_memory
from dms_ingest.publishing import Publisher
from dms_ingest.readings import Readings
from dms_ingest.receiving import Receiver
from dms_ingest.staging import Staging
from dms_ingest.staging_keys import StagingKeys
from dms_ingest.tus import TusUploads
from dms_ingest.usage_delivery import UsageDelivery
from nexarch import channels
from nexarch.http import CHECKS, METRICS
from nexarch.listen import Listener
from nexarch.module import CORE
from nexarch.seats import Seats
from nexarch.serve import background
from nexarch.tenant_module import DOORBELL, TENANTS, cache_wakes, check_bus, open_common_storage
from nexarch.threads import run_in_thread


async def listener(app: web.Application) -> AsyncIterator[None]:
    """The connection that hears what makes our caches wrong, and which uploads other processes want to go on with."""
    dsn = app[SETTINGS].bus_dsn.get_secret_value()

    def wanted(session_id: str | None) -> None:
        if session_id is not None:
            app[RECEIVER].cut_for_another(UUID(session_id))

    def tenant_changed(slug: str | None) -> None:
        app[TENANTS].forget(slug)
        app[NEW_BUCKETS].tell(slug)

    wakes = {**cache_wakes(app), channels.TENANTS: tenant_changed, channels.UPLOADS: wanted}
    ears = Listener(dsn, wakes, application_name="dms-ingest")
    check_bus(app, ears)
    async with background(app, "listen", ears.run()):
        yield


async def storage(app: web.Application) -> AsyncIterator[None]:
    """The object store, and what makes the tenants' buckets in it."""
    async with open_common_storage(app, app[SETTINGS], writes=True) as app[STORAGE]:
        app[NEW_BUCKETS] = NewBuckets(app[STORAGE], app[CORE].database)
        async with background(app, "new buckets", app[NEW_BUCKETS].run()):
            yield


async def staging(app: web.Application) -> AsyncIterator[None]:
    """The folder of uploads that are not complete."""
    cache_bytes = app[SETTINGS].staging_cache_bytes
    app[STAGING] = Staging(app[SETTINGS].staging_dir, share_of_memory() if cache_bytes is None else cache_bytes)
    app[CHECKS]["staging"] = partial(run_in_thread, app[STAGING].check)
    yield


async def transfers(app: web.Application) -> AsyncIterator[None]:
    """How many bytes of files may be on their way at once."""
    app[UPLOAD_SEATS] = Seats(app[SETTINGS].max_uploads, "uploads")
    app[DOWNLOAD_SEATS] = Seats(app[SETTINGS].max_downloads, "downloads")
    app[READINGS] = Readings()
    count_seats(app[METRICS], {"upload": app[UPLOAD_SEATS], "download": app[DOWNLOAD_SEATS]})
    yield


async def usage(app: web.Application) -> AsyncIterator[None]:
    """The delivery of the tenants' usage to core-api."""
    delivery = UsageDelivery(app[CORE], app[TENANTS])
    app[USAGE] = delivery
    async with background(app, "usage", delivery.run()):
        yield


async def uploads(app: web.Application) -> AsyncIterator[None]:
    """What receives, completes and clears up uploads."""
    settings, metrics = app[SETTINGS], UploadMetrics(app[METRICS])
    keys = StagingKeys(app[CORE], app[TENANTS])
    app[RECEIVER] = Receiver(
        app[TENANTS],
        app[STAGING],
        keys,
        lifetime_s=settings.upload_lifetime_s,
        idle_s=settings.upload_idle_s,
        count=metrics.received_bytes.inc,
        wanted=lambda session_id: app[DOORBELL].tell(channels.UPLOADS, str(session_id)),
    )

    def committed(tenant: str) -> None:
        app[DOORBELL].ring(tenant)
        app[USAGE].wake(tenant)
        metrics.completed.inc()

    completer = Completer(
        app[CORE],
        app[TENANTS],
        app[STAGING],
        keys,
        app[STORAGE],
        app[DOORBELL],
        app[RECEIVER],
        Admission(app[TENANTS], app[STAGING], settings),
        Publisher(app[CORE], app[TENANTS], app[STORAGE]),
        committed=committed,
    )
    app[COMPLETER] = completer
    app[TUS] = TusUploads(settings, app[TENANTS], app[STAGING], keys, app[RECEIVER], completer)
    sweep = Sweep(app[CORE], app[TENANTS], app[STAGING])
    async with background(app, "sweep uploads", sweep.run()):
        yield
    await completer.close()
