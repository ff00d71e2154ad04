"""Services as processes of their own, to be stopped, killed and measured."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from nexarch.settings import ServiceSettings


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A service that listens at `url`."""

    process: Process
    url: str

    async def kill(self) -> None:
        """End it at once, as the kernel does when memory is short."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to stop, wait until it has, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            return await self.process.wait()

    def reset_peak(self) -> int:
        """Begin to measure the peak of its resident memory anew; returns what it is now, in bytes."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.peak_bytes()

    def peak_bytes(self) -> int:
        """The most resident memory since then."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024


@asynccontextmanager
async def run_service(package: str, settings: ServiceSettings) -> AsyncIterator[ServiceProcess]:
    """Start `python -m <package>` with these settings and wait until it listens; it is killed at the end."""
    environment = {"PATH": os.environ["PATH"], f"{package.upper()}_LOG_FORMAT": "json"} | _variables(settings)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", package, env=environment, stderr=PIPE)
    assert process.stderr is not None
    draining: asyncio.Task[bytes] | None = None
    try:
        url = await _listening_url(package, process)
        draining = asyncio.create_task(process.stderr.read())  # a full pipe would stop the service
        yield ServiceProcess(process, url)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if draining is not None:
            await draining


async def _listening_url(package: str, process: Process) -> str:
    """Read the log up to the line that says where the service listens."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        async for line in process.stderr:
            if match := re.search(rb'"url": "(http://[^"]+)"', line):
                return match[1].decode()
    raise AssertionError(f"{package} ended with {await process.wait()}")


def _variables(settings: ServiceSettings) -> dict[str, str]:
    """What was set, as the service's own environment variables."""
    prefix = str(settings.model_config["env_prefix"])
    values = settings.model_dump(include=settings.model_fields_set)
    plain = {name: v.get_secret_value() if isinstance(v, SecretStr) else v for name, v in values.items()}
    return {f"{prefix}{name.upper()}": str(value) for name, value in plain.items() if value is not None}
