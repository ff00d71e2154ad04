"""The embedded server after its process was killed, as the out-of-memory killer or a power cut does."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from nexarch.postgres import PostgresServer
from support.database import FAST, free_port
from support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[PostgresServer]:
    server = PostgresServer(tmp_path / "postgres", free_port(), FAST)
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop, "immediate")


async def kill(server: PostgresServer) -> None:
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return not await asyncio.to_thread(server.is_running)

    await eventually(is_dead)


async def answer(server: PostgresServer) -> int:
    conn = await asyncpg.connect(server.dsn())
    try:
        return int(await conn.fetchval("SELECT 42"))
    finally:
        await conn.close()


async def test_a_server_whose_children_outlive_it_starts_again(server: PostgresServer) -> None:
    busy = await asyncpg.connect(server.dsn())
    work = asyncio.create_task(busy.fetchval("SELECT count(*) FROM generate_series(1, 20000000)"))
    watching = await asyncpg.connect(server.dsn())
    await eventually(lambda: watching.fetchval("SELECT count(*) = 2 FROM pg_stat_activity WHERE state = 'active'"))
    await kill(server)

    await asyncio.to_thread(server.start)

    assert await answer(server) == 42
    await asyncio.gather(work, return_exceptions=True)
    for conn in (busy, watching):
        conn.terminate()
