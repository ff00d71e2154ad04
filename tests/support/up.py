"""`nexarch up` as a process of its own, under a test's folder."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from support.command import Command
from support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Up:
    """A platform that is up."""

    folder: Path
    process: asyncio.subprocess.Process

    @property
    def postgres_pid(self) -> int:
        """The server's process."""
        return int((self.folder / "postgres/data/postmaster.pid").read_text().split()[0])

    async def is_ready(self) -> bool:
        """Whether core-api reaches its database."""
        endpoints = json.loads((self.folder / "endpoints.json").read_text())
        async with aiohttp.ClientSession() as http, http.get(f"{endpoints['core_api']}/readyz") as response:
            return response.status == 200


@asynccontextmanager
async def running_up(nexarch: Command, folder: Path, port_base: int) -> AsyncIterator[Up]:
    """Start it without the demonstration; it is stopped at the end."""
    process = await nexarch.start("up", "--home", folder, "--port-base", str(port_base), "--no-demo")

    async def is_up() -> bool:
        assert process.returncode is None, (await process.communicate())[1].decode()
        return (folder / "endpoints.json").exists()

    try:
        await eventually(is_up, within_s=60, every_s=0.1)
        yield Up(folder, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def free_ports_in_a_row(count: int = 5) -> int:
    """The first of some TCP ports that nobody listens on at this moment.

    Below the range from which the system takes ports for connections: seconds pass until these are bound.
    """
    while True:
        base = random.randrange(10_000, 32_000, count)
        if all(_is_free(base + offset) for offset in range(count)):
            return base


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
