"""Services as processes of their own, to be stopped and killed."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager


@asynccontextmanager
async def run_service(package: str, variables: Mapping[str, str]) -> AsyncIterator[tuple[Process, str]]:
    """Start `python -m <package>`; yields the process and where it listens. It is killed at the end."""
    environment = {"PATH": os.environ["PATH"], f"{package.upper()}_LOG_FORMAT": "json", **variables}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", package, env=environment, stderr=PIPE)
    assert process.stderr is not None
    draining: asyncio.Task[bytes] | None = None
    try:
        url = await _listening_url(package, process)
        draining = asyncio.create_task(process.stderr.read())  # a full pipe would stop the service
        yield process, url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if draining is not None:
            await draining


async def _listening_url(package: str, process: Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(30):
        async for line in process.stderr:
            if match := re.search(rb'"url": "(http://[^"]+)"', line):
                return match[1].decode()
    raise AssertionError(f"{package} ended with {await process.wait()}")
