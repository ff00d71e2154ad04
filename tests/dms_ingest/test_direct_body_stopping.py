"""A large body that is still read while the process stops: aiohttp drops what comes then, so none may go on behind."""

import fcntl
import os
import struct
import termios
from pathlib import Path

import pytest
from aiohttp import web

from dms_ingest.app import create_app
from support.ingest import PDF, Ingest, ingest_settings, run_ingest, sign_in, somebody_waits_for_a_lock, tenant_database
from support.raw_line import begin
from support.services import CoreApi
from support.tus import CHUNK_TYPE, Tus
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20
PIECE = 100_000


async def test_a_chunk_has_no_gap_where_its_middle_comes_when_the_process_has_begun_to_stop(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    person = await sign_in(core_api)
    content = PDF + os.urandom(4 * MIB - len(PDF))
    async with run_ingest(settings) as ingest:
        path = await Tus(ingest, person).create(len(content))
    runner = web.AppRunner(create_app(settings), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        stopping = Ingest(f"http://{host}:{port}", settings, ingest.session)
        async with tenant_database(core_api, person) as conn, conn.transaction():
            await conn.execute("LOCK TABLE upload_sessions IN ACCESS EXCLUSIVE MODE")
            wanted = ["Tus-Resumable: 1.0.0", f"Content-Type: {CHUNK_TYPE}", "Upload-Offset: 0"]
            line = await begin(stopping, person, "PATCH", path, *wanted, f"Content-Length: {len(content)}")
            await line.send(content[:PIECE])
            await eventually(lambda: somebody_waits_for_a_lock(conn))
            await eventually(lambda: _all_is_read(runner))
            assert runner.server is not None

            runner.server.pre_shutdown()  # what `cleanup` does first
            await line.send(content[PIECE : 2 * PIECE])
            await eventually(lambda: _all_is_read(runner))
        await eventually(lambda: _all_is_taken(runner))
        await line.send(content[2 * PIECE :])
        await line.close()
    finally:
        await runner.cleanup()

    async with run_ingest(settings) as ingest:
        assert (await Tus(ingest, person).head(path)).offset == PIECE


async def _all_is_read(runner: web.AppRunner) -> bool:
    """Whether the kernel holds nothing that came for this server."""
    assert runner.server is not None
    lines = [line.transport.get_extra_info("socket") for line in runner.server.connections if line.transport]
    return all(struct.unpack("i", fcntl.ioctl(line, termios.FIONREAD, b"\0" * 4))[0] == 0 for line in lines)


async def _all_is_taken(runner: web.AppRunner) -> bool:
    """Whether aiohttp holds nothing of a body that its handler has not read yet; nothing public tells."""
    assert runner.server is not None
    requests = [line._current_request for line in runner.server.connections]
    return all(request.content._size == 0 for request in requests if request is not None)
