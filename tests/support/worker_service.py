"""The real dms-worker service for tests, in this process or as one of its own, beside a dms-ingest."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from dms_ingest.settings import Settings as IngestSettings
from dms_worker.app import create_app
from dms_worker.settings import Settings
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
        "storage_dir": ingest.storage_dir,
        "drain_delay_s": 0,
        "grace_period_s": 5,
    }
    return Settings(**given | changes)


@asynccontextmanager
async def run_worker(settings: Settings) -> AsyncIterator[str]:
    """Serve dms-worker in this process; gives its URL."""
    async with TestServer(create_app(settings)) as server:
        yield str(server.make_url("")).rstrip("/")


@asynccontextmanager
async def run_worker_process(settings: Settings) -> AsyncIterator[Process]:
    """Start `dms-worker` as a process to be killed; it is killed at the end, if it still runs."""
    environment = {"PATH": os.environ["PATH"]} | _variables(settings)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dms_worker", env=environment, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


def _variables(settings: Settings) -> dict[str, str]:
    values = settings.model_dump(include=settings.model_fields_set)
    plain = {name: v.get_secret_value() if isinstance(v, SecretStr) else v for name, v in values.items()}
    return {f"DMS_WORKER_{name.upper()}": str(value) for name, value in plain.items()}
