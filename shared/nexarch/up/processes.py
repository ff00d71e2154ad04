"""The four services as processes: started with their settings, started again when they die, stopped in order."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import aiohttp

from nexarch.settings import EXIT_BAD_SETTINGS

_READY_WITHIN_S = 60.0
_STOP_WITHIN_S = 30.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_SETTLED_S = 30.0  # who lived so long is started again without a pause
_PR_SET_PDEATHSIG = 1

_LOOK_EVERY_S = 0.25


class NotReady(Exception):
    """A service did not become ready in time, or cannot; the text ends with the last lines of its log."""


class ServiceProcess:
    """One service. It writes its log into a file by itself, so it never waits for whoever shows it."""

    def __init__(self, name: str, module: str, environment: Mapping[str, str], url: str, log: Path) -> None:
        self.name = name
        self.url = url
        self.log = log
        self.restarts = 0
        self._module = module
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._refuses_settings = False

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Start the service, and again whenever it ends, until `stop`; pauses grow while it keeps dying.

        One that refuses its settings is not started again: it would find the same.
        """
        pause_s = _FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once()
            self._refuses_settings = code == EXIT_BAD_SETTINGS
            if self._stopping.is_set() or self._refuses_settings:
                return
            if loop.time() - started > _SETTLED_S:
                pause_s = _FIRST_PAUSE_S
            self.restarts += 1
            self._write(f"{self.name} ended with {code}; it is started again in {pause_s:.1f} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def wait_ready(self, within_s: float = _READY_WITHIN_S) -> None:
        """Return when /readyz says 200; `NotReady` with the end of the log if it does not in time, or never will."""
        try:
            async with asyncio.timeout(within_s), aiohttp.ClientSession() as http:
                while not await _is_ready(http, self.url):
                    if self._refuses_settings:
                        raise NotReady(f"{self.name} has a wrong setting. {self._end_of_log()}")
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise NotReady(f"{self.name} was not ready within {within_s:.0f} s. {self._end_of_log()}") from error

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL for one that does not end."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await process.wait()
        except TimeoutError:
            self._write(f"{self.name} did not stop within {_STOP_WITHIN_S:.0f} s and is killed")
            process.kill()
            await process.wait()

    async def follow(self, show: Callable[[str], None]) -> None:
        """Give each line that is logged from now on to `show`, until cancelled."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(0, os.SEEK_END)
            line = ""
            while True:
                line += log.readline()
                if line.endswith("\n"):
                    show(line.rstrip("\n"))
                    line = ""
                else:
                    await asyncio.sleep(_LOOK_EVERY_S)

    async def _run_once(self) -> int:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for us; we stop them in order
                preexec_fn=partial(_die_with, os.getpid()),
            )  # fmt: skip
        return await self._process.wait()

    def _end_of_log(self) -> str:
        tail = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
        return f"The end of {self.log}:\n{tail}"

    def _write(self, line: str) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


async def _is_ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(f"{url}/readyz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _die_with(parent: int) -> None:
    """In the child: be terminated if `nexarch up` itself is killed (Linux, prctl(2)), so that no port stays taken."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os.kill(os.getpid(), signal.SIGTERM)
