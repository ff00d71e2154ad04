import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from support.waiting import eventually

SERVICE = Path(__file__).parents[1] / "support" / "slow_service.py"
DEADLINE_S = 15.0


class Running:
    """The service as a process; its log lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.url = ""
        self.internal_url = ""

    async def line(self, event: str) -> dict[str, object]:
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            while True:
                entry: dict[str, object] = json.loads(await self.process.stderr.readline())
                if entry["event"] == event:
                    return entry

    async def exit_code(self) -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await self.process.wait()


@asynccontextmanager
async def running(**settings: str) -> AsyncIterator[Running]:
    environment = os.environ | {f"SLOW_{name.upper()}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVICE), env=environment, stderr=asyncio.subprocess.PIPE
    )
    service = Running(process)
    try:
        if "internal_port" in settings:
            service.internal_url = str((await service.line("listening internally"))["url"])
        service.url = str((await service.line("listening"))["url"])
        yield service
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_after_sigterm_readyz_is_503_while_the_listener_stays_and_the_exit_code_is_0(
    http: aiohttp.ClientSession,
) -> None:
    async with running(drain_delay_s="1.5") as service:
        before = await http.get(f"{service.url}/readyz")
        service.process.send_signal(signal.SIGTERM)
        await service.line("draining")

        during = await http.get(f"{service.url}/readyz")
        alive = await http.get(f"{service.url}/livez")
        code = await service.exit_code()

        assert (before.status, during.status, alive.status, code) == (200, 503, 200, 0)


async def test_an_internal_port_takes_health_and_metrics_off_the_published_one(http: aiohttp.ClientSession) -> None:
    async with running(internal_port="0", drain_delay_s="600") as service:
        internal = service.internal_url

        outside = [(await http.get(f"{service.url}{path}")).status for path in ("/readyz", "/metrics", "/docs")]
        inside = [(await http.get(f"{internal}{path}")).status for path in ("/readyz", "/metrics", "/docs")]
        service.process.send_signal(signal.SIGTERM)
        await service.line("draining")
        draining = await http.get(f"{internal}/readyz")

        assert (outside, inside, draining.status) == ([401, 401, 401], [200, 200, 200], 503)


async def test_a_request_that_runs_at_sigterm_gets_its_answer(http: aiohttp.ClientSession) -> None:
    async with running(drain_delay_s="0") as service:
        request = asyncio.create_task(http.get(f"{service.url}/v1/slow"))

        async def both_run() -> bool:
            metrics = await http.get(f"{service.url}/metrics")
            return "nexarch_http_requests_running 2.0" in await metrics.text()

        await eventually(both_run)
        service.process.send_signal(signal.SIGTERM)

        response = await request

        assert (response.status, await response.text()) == (200, "done")
        assert await service.exit_code() == 0


async def test_a_second_signal_ends_the_drain_delay(http: aiohttp.ClientSession) -> None:
    async with running(drain_delay_s="600") as service:
        service.process.send_signal(signal.SIGTERM)
        await service.line("draining")

        service.process.send_signal(signal.SIGTERM)

        assert await service.exit_code() == 0


async def test_when_a_background_task_dies_the_process_exits_with_1(http: aiohttp.ClientSession) -> None:
    async with running() as service:
        await http.post(f"{service.url}/v1/die")

        assert (await service.line("background task died"))["task"] == "mortal"
        assert await service.exit_code() == 1


async def test_wrong_settings_stop_the_process_with_2_and_name_the_variables_but_not_their_values() -> None:
    environment = os.environ | {"SLOW_PORT": "hunter2", "SLOW_LOG_LEVEL": "loud"}

    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVICE), env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, output = await process.communicate()

    assert process.returncode == 2
    assert b"SLOW_PORT" in output
    assert b"SLOW_LOG_LEVEL" in output
    assert b"hunter2" not in output
