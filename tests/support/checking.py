"""Checks of the object store, ordered as an admin does, or run by hand."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry

from dms_worker.check_metrics import CheckMetrics
from dms_worker.handlers.check_store import CheckLimits, StoreChecking
from dms_worker.job_types import JobContext, Snooze
from nexarch.jobs import ClaimedJob
from nexarch.storage import Storage, revision_key
from nexarch.tenancy import TenantPools
from support.ingest import Ingest, Person, stored_folder
from support.services import CoreApi
from support.waiting import eventually

Json = dict[str, Any]

DAY_S = 86400.0
ALL = CheckLimits(sample_objects=1000, sample_bytes=1 << 40, orphans_kept_s=DAY_S)


@asynccontextmanager
async def checker(
    core: CoreApi, storage: Storage, limits: CheckLimits = ALL, *, registry: CollectorRegistry | None = None
) -> AsyncIterator[StoreChecking]:
    """The handler over a real core-api and store."""
    async with core.client("dms_worker") as client:
        pools = TenantPools(client.database, application_name="tests-check")
        try:
            yield StoreChecking(client, storage, pools, CheckMetrics(registry or CollectorRegistry()), limits)
        finally:
            await pools.close()


async def run_check(checking: StoreChecking, slug: str, payload: str = "{}") -> None:
    """Run a job to its end, turn after turn, as a worker does."""
    job = ClaimedJob(uuid4(), 1, "check_store", payload, 1, 5, None, 0.0, 0.0)
    async with checking.tenants.pool(slug) as pool:
        finished = False
        while not finished:
            with suppress(Snooze):
                await checking.run(JobContext(slug, job, pool))
                finished = True


async def check_by_worker(ingest: Ingest, admin: Person, scope: str = "all", *, within_s: float = 60.0) -> Json:
    """Order a check over HTTP and wait for a running worker to finish it; returns it with its findings."""
    status, ordered = await ingest.call(admin, "POST", "/v1/store-checks", json={"scope": scope})
    assert status == 202, ordered
    found: Json = {}

    async def finished() -> bool:
        found.update((await ingest.call(admin, "GET", f"/v1/store-checks/{ordered['id']}"))[1])
        return found["finished_at"] is not None

    await eventually(finished, within_s=within_s, every_s=0.1)
    return found


async def latest_check(ingest: Ingest, admin: Person) -> Json:
    """The newest check with its findings."""
    _, page = await ingest.call(admin, "GET", "/v1/store-checks", params={"limit": "1"})
    _, check = await ingest.call(admin, "GET", f"/v1/store-checks/{page['items'][0]['id']}")
    return dict(check)


def object_file(ingest: Ingest, person: Person, document: Json) -> Path:
    """The file that holds a document's current revision in a store on the local disk."""
    key = revision_key(document["id"], document["current_revision"]["id"])
    return stored_folder(ingest.settings, person) / key


def stray_file(ingest: Ingest, person: Person, size: int = 1000, *, days_old: float) -> Path:
    """An object that nothing refers to."""
    path = stored_folder(ingest.settings, person) / revision_key(uuid4(), uuid4())
    path.parent.mkdir(parents=True)
    path.write_bytes(os.urandom(size))
    make_old(path, days_old)
    return path


def make_old(path: Path, days: float) -> None:
    """Let a file have been written so long ago."""
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


async def download(ingest: Ingest, person: Person, document: Json) -> tuple[int, bytes]:
    """The status and the bytes that somebody gets."""
    url = f"{ingest.url}/v1/documents/{document['id']}/content"
    async with ingest.session.get(url, headers=person.headers) as response:
        return response.status, await response.read()
