"""The real dms-worker service for tests, beside a dms-ingest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from dms_ingest.settings import Settings as IngestSettings
from dms_worker.app import create_app
from dms_worker.settings import Settings
from nexarch.storage import StorageSettings
from support.services import CoreApi


def worker_settings(core: CoreApi, ingest: IngestSettings, **changes: Any) -> Settings:  # noqa: ANN401
    """Settings for a worker that has bus and object store in common with a dms-ingest."""
    credentials = core.modules["dms_worker"]
    given: dict[str, Any] = {
        "port": 0,
        "core_api_url": core.url,
        "client_id": credentials.client_id,
        "client_secret": SecretStr(credentials.client_secret),
        "base_url": "http://127.0.0.1:8091",
        "bus_dsn": ingest.bus_dsn,
        **ingest.model_dump(include={*StorageSettings.model_fields} & ingest.model_fields_set),
        "drain_delay_s": 0,
        "grace_period_s": 5,
    }
    return Settings(**given | changes)


@asynccontextmanager
async def run_worker(settings: Settings) -> AsyncIterator[str]:
    """Serve dms-worker in this process; gives its URL."""
    async with TestServer(create_app(settings)) as server:
        yield str(server.make_url("")).rstrip("/")
