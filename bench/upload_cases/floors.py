"""What ours is compared with: bare programs that do the same work and nothing else, and the reference server of tus."""

import asyncio
import hashlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SEGMENT = 262_112  # bytes of plaintext, as in the object format
_TUS_SERVER = Path(__file__).parents[1] / "tus_server"


def serve_floor(folder: Path) -> None:
    """Run a bare receiver and sender of files in a folder until killed; prints its port."""

    async def create(_request: web.Request) -> web.Response:
        (folder / "floor").unlink(missing_ok=True)  # the others write new files too
        return web.Response(status=201, headers={"Location": "/files/floor"})

    async def receive(request: web.Request) -> web.Response:
        file = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT)
        offset = int(request.headers["Upload-Offset"])
        async for chunk in request.content.iter_any():
            offset += os.pwrite(file, chunk, offset)
        os.close(file)
        return web.Response(status=204)

    async def send(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(folder / "floor")

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/files/", create)
        app.router.add_patch("/files/floor", receive)
        app.router.add_get("/files/floor", send)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())


@contextmanager
def bare_server(program: str, folder: Path) -> Iterator[str]:
    """The floor in a process of its own; gives its URL. `program` is what calls `serve_floor` for `--floor`."""
    with _server([sys.executable, program, "--floor", str(folder)]) as url:
        yield url


@contextmanager
def tus_server(folder: Path) -> Iterator[str]:
    """@tus/server with @tus/file-store, which keep their files in a folder; gives the URL."""
    folder.mkdir()
    with _server(["node", str(_TUS_SERVER / "server.js"), str(folder)]) as url:
        yield url


@contextmanager
def _server(command: Sequence[str]) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def complete_bare(source: Path, target: Path) -> float:
    """Read and hash in one thread, encrypt and write in another, sync at the end; returns the seconds."""
    cipher, nonce = AESGCM(os.urandom(32)), os.urandom(12)
    free: queue.Queue[memoryview] = queue.Queue()
    full: queue.Queue[memoryview | None] = queue.Queue()
    for _ in range(3):
        free.put(memoryview(bytearray(4 * SEGMENT)))

    def seal() -> None:
        out = memoryview(bytearray(SEGMENT + 16))
        with target.open("wb", buffering=0) as file:
            while (chunk := full.get()) is not None:
                for start in range(0, len(chunk), SEGMENT):
                    piece = chunk[start : start + SEGMENT]
                    file.write(out[: cipher.encrypt_into(nonce, piece, b"", out[: len(piece) + 16])])
                free.put(memoryview(chunk.obj))
            os.fsync(file.fileno())

    begin = time.perf_counter()
    thread = threading.Thread(target=seal)
    thread.start()
    digest = hashlib.sha256()
    with source.open("rb", buffering=0) as file:
        while count := file.readinto(buffer := free.get()):
            digest.update(buffer[:count])
            full.put(buffer[:count])
    full.put(None)
    thread.join()
    return time.perf_counter() - begin
