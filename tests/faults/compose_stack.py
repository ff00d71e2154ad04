"""The containers, as a compose project of its own with a small disk for staged uploads."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp

from compose.stack import ROOT
from compose.stack import Stack as Project
from faults.bus import drop_bus
from faults.stack import KNOWN_WITHIN_S, SERVICES, Part, Service, StoredFile
from support.waiting import eventually

_TENANT = "faults"
_EMAIL = "ada@example.org"
_CONTAINERS = {"PostgreSQL": "postgres", "object store": "object-store"}  # others are called as their part

# `docker kill` would count as a stop by hand, after which Docker starts nothing again. The service is the child of the
# container's init; what is executed in a container has no parent there.
_KILL = """
import os, pathlib, signal
for folder in pathlib.Path('/proc').glob('[0-9]*'):
    if (folder / 'stat').read_text().rpartition(')')[2].split()[1] == '1':
        os.kill(int(folder.name), signal.SIGKILL)
"""
_KILLED = 128 + signal.SIGKILL
_READY = """
import urllib.request
try:
    print(urllib.request.urlopen('http://127.0.0.1:9000/readyz', timeout=4).status)
except OSError:
    print(0)
"""
# Fills the disk, and what becomes free on it, until its file is taken away.
_FILLER = "/srv/staging/.filler"
_FILL = """
import contextlib, os, sys, time
with open(sys.argv[1], 'ab', buffering=0) as file:
    while os.path.exists(sys.argv[1]):
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        time.sleep(0.05)
"""
_PROBE = """
import errno, pathlib
probe = pathlib.Path('/srv/staging/.probe')
try:
    probe.write_bytes(bytes(1))
    print('room')
except OSError as error:
    print(errno.errorcode[error.errno])
finally:
    probe.unlink(missing_ok=True)
"""
_LIST = """
import asyncio, json, sys
from dms_worker.settings import Settings
from nexarch.storage import open_storage

async def main():
    async with open_storage(Settings()) as store:
        listing = store.list_objects(sys.stdin.read())
        print(json.dumps([(o.key, o.size_bytes, o.modified_at.isoformat()) async for o in listing]))

asyncio.run(main())
"""
_QUERY = """
PGPASSWORD=$(cat /run/secrets/superuser-password) exec psql -h 127.0.0.1 -U postgres -d "$0" -v ON_ERROR_STOP=1 -At
"""


class ComposeStack:
    """Implements `faults.stack.Stack`."""

    def __init__(self, project: Project, operator_token: str, password: str) -> None:
        self._project = project
        self._containers: dict[str, str] = {}
        self.core_url = project.core_url
        self.ingest_url = project.ingest_url
        self.operator_token = operator_token
        self.tenant = _TENANT
        self.email = _EMAIL
        self.password = password

    @asynccontextmanager
    async def killed(self, service: Service) -> AsyncIterator[None]:
        """See `Stack`; Docker starts the container again by itself."""
        before = await self._pid(service)
        try:
            await self._exec(service, "python3", "-c", _KILL)
        except subprocess.CalledProcessError as error:
            if error.returncode != _KILLED:  # the container may end sooner than what kills in it, which ends with it
                raise
        await self._until_gone(service, before)
        yield

    @asynccontextmanager
    async def restarted_postgres(self) -> AsyncIterator[None]:
        """See `Stack`."""
        # `restart` in its two steps: while Docker does both at once it does not say that the first is done.
        before = await self._pid("postgres")
        await self._compose("stop", "postgres")
        await self._until_gone("postgres", before)
        start = asyncio.create_task(self._compose("start", "postgres"))
        try:
            yield
        finally:
            await start

    @asynccontextmanager
    async def stopped(self, part: Part) -> AsyncIterator[None]:
        """See `Stack`."""
        container = _CONTAINERS.get(part, part)
        before = await self._pid(container)
        await self._compose("stop", container)
        await self._until_gone(container, before)
        try:
            yield
        finally:
            await self._compose("start", container)

    @asynccontextmanager
    async def paused(self, service: Service) -> AsyncIterator[None]:
        """See `Stack`."""

        async def stands() -> bool:
            return await self._inspect(service, "{{.State.Paused}}") == "true"

        await self._compose("pause", service)
        try:
            await eventually(stands, within_s=KNOWN_WITHIN_S)
            yield
        finally:
            await self._compose("unpause", service)

    @asynccontextmanager
    async def full_disk(self) -> AsyncIterator[None]:
        """See `Stack`."""

        async def is_full() -> bool:
            return await self._exec("dms-ingest", "python3", "-c", _PROBE) == "ENOSPC"

        holder = await self._container("staging-holder")
        filler = await asyncio.create_subprocess_exec("docker", "exec", holder, "python3", "-c", _FILL, _FILLER)
        try:
            await eventually(is_full, within_s=KNOWN_WITHIN_S)
            yield
        finally:
            await self._exec("staging-holder", "rm", "-f", _FILLER)
            await filler.wait()

    @asynccontextmanager
    async def dropped_bus(self) -> AsyncIterator[None]:
        """See `Stack`."""
        await drop_bus(self)
        yield

    async def unready(self) -> list[str]:
        """See `Stack`; asked inside the containers, where /readyz is open."""
        answers = await asyncio.gather(*(self._ready_status(service) for service in SERVICES))
        return [service for service, status in zip(SERVICES, answers, strict=True) if status != "200"]

    async def rows(self, database: str, sql: str) -> list[dict[str, Any]]:
        """See `Stack`."""
        query = f"SELECT coalesce(json_agg(found), '[]') FROM ({sql}) AS found"
        rows: list[dict[str, Any]] = json.loads(await self._exec("postgres", "sh", "-c", _QUERY, database, stdin=query))
        return rows

    async def objects(self) -> dict[str, StoredFile]:
        """See `Stack`."""
        listing = json.loads(await self._exec("dms-worker", "python3", "-c", _LIST, stdin=self.tenant))
        return {key: StoredFile(size, datetime.fromisoformat(put_at)) for key, size, put_at in listing}

    async def versions(self) -> dict[str, str]:
        """See `Stack`."""
        (row,) = await self.rows("postgres", "SELECT current_setting('server_version') AS version")
        return {
            "NEXARCH": version("nexarch"),
            "PostgreSQL": row["version"].split()[0],
            "Docker": await _run("docker", "version", "--format", "{{.Server.Version}}"),
            "compose": await _run(*self._project.command, "version", "--short"),
        }

    async def _ready_status(self, service: Service) -> str:
        try:
            return (await self._exec(service, "python3", "-c", _READY)).strip()
        except subprocess.CalledProcessError:  # it does not run
            return "0"

    async def _compose(self, *arguments: str) -> str:
        return await asyncio.to_thread(self._project.compose, *arguments)

    async def _pid(self, container: str) -> int:
        """The process that the container consists of; 0 while it does not run."""
        return int(await self._inspect(container, "{{.State.Pid}}"))

    async def _until_gone(self, container: str, pid: int) -> None:
        async def is_gone() -> bool:
            return await self._pid(container) != pid

        await eventually(is_gone, within_s=KNOWN_WITHIN_S)

    async def _inspect(self, service: str, what: str) -> str:
        return await _run("docker", "inspect", "--format", what, await self._container(service))

    async def _container(self, service: str) -> str:
        """Its id, which it keeps for as long as the project is up."""
        if service not in self._containers:
            (self._containers[service],) = await asyncio.to_thread(self._project.containers, service)
        return self._containers[service]

    async def _exec(self, service: str, *command: str, stdin: str = "") -> str:
        return await _run("docker", "exec", "-i", await self._container(service), *command, stdin=stdin)


@asynccontextmanager
async def running_compose_stack(folder: Path, staging_bytes: int) -> AsyncIterator[ComposeStack]:
    """Build and start everything, make a tenant and a user; all of it is removed at the end."""
    os.environ["COMPOSE_FILE"] = f"docker-compose.yml{os.pathsep}tests/faults/compose.yml"
    os.environ["FAULTS_STAGING_BYTES"] = str(staging_bytes)
    shutil.copy(ROOT / ".env.example", folder / ".env")
    with (folder / ".env").open("a") as settings:
        # The small disk is memory of whoever writes to it; a killed worker's jobs shall not wait for a minute.
        settings.write("\nDMS_INGEST_MEMORY=2g\nDMS_WORKER_STALE_AFTER_S=10\n")
    project = Project(folder)
    try:
        await asyncio.to_thread(project.compose, "build", within_s=1200)
        await asyncio.to_thread(project.compose, "up", "-d", "--no-build")
        await asyncio.to_thread(project.wait_healthy)
        operator_token = (await asyncio.to_thread(project.secrets))["operator-token"]
        password = secrets.token_urlsafe(16)
        await _make_user(project.core_url, operator_token, password)
        yield ComposeStack(project, operator_token, password)
    finally:
        await asyncio.to_thread(project.compose, "down", "--volumes", "--remove-orphans", "--timeout", "1")


async def _make_user(core_url: str, operator_token: str, password: str) -> None:
    headers = {"Authorization": f"Bearer {operator_token}"}
    tenant = {"slug": _TENANT, "name": "Faults"}
    user = {"email": _EMAIL, "password": password, "role": "editor"}
    async with aiohttp.ClientSession(core_url, headers=headers, raise_for_status=True) as http:
        await http.post("/v1/tenants", json=tenant)
        await http.post(f"/v1/tenants/{_TENANT}/users", json=user)


async def _run(*command: str, stdin: str = "") -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(stdin.encode())
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command[:6], out, err)
    return out.decode().strip()
