"""Our worker as the service runs it: its pools, its doorbell, one process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from bench.queue_cases.stage import Stage
from dms_worker.job_types import JobType
from dms_worker.pools import worker_pools
from dms_worker.sweep import KnownTenant
from dms_worker.worker import Worker, WorkerOptions
from nexarch.core_client import DatabaseAddress
from nexarch.doorbell import Doorbell


@asynccontextmanager
async def working(
    stage: Stage,
    tenants: Sequence[str],
    job_types: Sequence[JobType],
    *,
    registry: CollectorRegistry | None = None,
    **options: Any,  # noqa: ANN401 - the fields of WorkerOptions
) -> AsyncIterator[Worker]:
    """Run a worker over these tenants; core-api's answers are the only part left out."""

    async def resolve(slug: str) -> DatabaseAddress:
        place = urlsplit(stage.tenant_dsn(slug))
        return DatabaseAddress(
            tenant_id=UUID(int=0), slug=slug, host=place.hostname or "", port=place.port or 0,
            database=place.path[1:], user=place.username or "", password=SecretStr(place.password or ""),
        )  # fmt: skip

    async def directory() -> Sequence[KnownTenant]:
        return [KnownTenant(slug, None) for slug in tenants]

    pools = worker_pools(resolve, application_name="bench-worker", max_size=8)
    try:
        async with Doorbell(stage.bus_dsn, application_name="bench-worker-bell") as bell:
            worker = Worker(
                job_types,
                bus_dsn=stage.bus_dsn,
                pool_for=pools.pool,
                directory=directory,
                ring=bell.ring,
                registry=registry or CollectorRegistry(),
                options=WorkerOptions(**options),
            )
            async with worker:
                yield worker
    finally:
        await pools.close()
