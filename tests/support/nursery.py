"""Workers as processes that a test starts by the dozen, to kill, freeze and stop them."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_TESTS = Path(__file__).parents[1]


class WorkerProcess:
    """One worker; its exit code is known once it has ended (negative: the signal that ended it)."""

    def __init__(self, pid: int, ready: asyncio.Future[None], exit_code: asyncio.Future[int]) -> None:
        self.pid = pid
        self._ready = ready
        self._exit_code = exit_code

    @property
    def lives(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return not self._exit_code.done()

    async def ready(self, within_s: float = 20.0) -> None:
        """Wait until it listens."""
        await asyncio.wait_for(asyncio.shield(self._ready), within_s)

    async def ended(self, within_s: float = 20.0) -> int:
        """Wait for its end and return the exit code."""
        return await asyncio.wait_for(asyncio.shield(self._exit_code), within_s)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Tell it to stop, as a deployment does."""
        os.kill(self.pid, signal.SIGTERM)

    def freeze(self) -> None:
        """Stop its time: it lives and does nothing, like a virtual machine that is being moved."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had happened."""
        os.kill(self.pid, signal.SIGCONT)


class Nursery:
    """Starts workers on one tenant database and one bus; see `nursery_process.Plan` for how they may be."""

    def __init__(self, process: Process, plan: dict[str, object]) -> None:
        self._process = process
        self._plan = plan
        self._started: asyncio.Queue[int] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._ready: defaultdict[int, asyncio.Future[None]] = defaultdict(loop.create_future)
        self._exit_codes: defaultdict[int, asyncio.Future[int]] = defaultdict(loop.create_future)

    async def start(self, **plan: object) -> WorkerProcess:
        """Start a worker and wait until it listens."""
        worker = await self.start_soon(**plan)
        await worker.ready()
        return worker

    async def start_soon(self, **plan: object) -> WorkerProcess:
        """Start a worker that may not listen yet, or die before it does."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._plan | plan).encode() + b"\n")
        pid = await asyncio.wait_for(self._started.get(), 20)
        return WorkerProcess(pid, self._ready[pid], self._exit_codes[pid])

    async def hear(self) -> None:
        """Take in what the nursery tells, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word, pid, *code = line.decode().split()
            if word == "started":
                self._started.put_nowait(int(pid))
            elif word == "ready":
                self._ready[int(pid)].set_result(None)
            else:
                self._exit_codes[int(pid)].set_result(int(code[0]))


@asynccontextmanager
async def nursery(bus_dsn: str, tenant_dsn: str, **plan: object) -> AsyncIterator[Nursery]:
    """A nursery whose workers are all dead at the end, whatever happened to them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_TESTS / "support" / "nursery_process.py"),
        stdin=PIPE,
        stdout=PIPE,
        env={"PYTHONPATH": str(_TESTS)},
    )
    assert process.stdin is not None
    opened = Nursery(process, {"bus_dsn": bus_dsn, "tenant_dsn": tenant_dsn, **plan})
    hearing = asyncio.create_task(opened.hear())
    try:
        yield opened
    finally:
        process.stdin.close()
        await process.wait()
        await hearing
