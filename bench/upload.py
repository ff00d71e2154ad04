"""How fast uploads are received and completed, next to bare programs that do the same work in the same run.

    python bench/upload.py [MIB]

Starts the whole platform in a folder of its own (`nexarch up`). One JSON object per line, `{"bench": "upload",
"case": ...}`; MB are 10^6 bytes of plaintext, each figure is the best of three rounds taken in turn:

- `receive`: 8 MiB requests on one connection, with the digest announced. Floor: an aiohttp handler that writes what
  it gets to a file.
- `complete_1gib` (or what MIB says): hash, seal, put to the local driver, commit. Floor: two threads, one reads and
  hashes, the other encrypts with bare AES-256-GCM and writes, then fsync.
- `memory`: the most resident memory of dms-ingest in an upload of 64 MiB and in the large one.
- `loop_lag`: how long another request waits while the large one is received and completed.
"""

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's `queue`

import asyncio
import hashlib
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MIB = 1 << 20
PIECE = 8 * MIB
SEGMENT = 262_112  # bytes of plaintext, as in the object format
ROUNDS = 3


class Service:
    """One connection to dms-ingest, or to the floor."""

    def __init__(self, url: str, token: str = "") -> None:
        address = urlsplit(url)
        self.url = url
        self._connection = HTTPConnection(address.hostname or "", address.port)
        self._headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: memoryview | None = None, **fields: object) -> Any:  # noqa: ANN401
        data = json.dumps(fields).encode() if fields else body
        kind = {"Content-Type": "application/json" if fields else "application/octet-stream"}
        self._connection.request(method, path, data, self._headers | kind)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status < 300, (answer.status, content)
        return json.loads(content) if content else None

    def send(self, path: str, content: memoryview) -> float:
        """Send the content in pieces and return the seconds it took."""
        begin = time.perf_counter()
        for offset in range(0, len(content), PIECE):
            self.call("PUT", f"{path}?offset={offset}", content[offset : offset + PIECE])
        return time.perf_counter() - begin


class Watch:
    """Asks the service for its memory and for a sign of life, over and over, from another thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peak = 0.0
        self.lags: list[float] = []

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        service = Service(self._url)
        while not self._stop.wait(0.005):
            begin = time.perf_counter()
            service.call("GET", "/livez")
            self.lags.append((time.perf_counter() - begin) * 1000)
            if len(self.lags) % 10 == 0:
                self.peak = max(self.peak, resident_mib(self._url))


def resident_mib(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        found = re.search(rb"^process_resident_memory_bytes (\S+)", answer.read(), re.MULTILINE)
    assert found is not None
    return float(found[1]) / MIB


@contextmanager
def platform(home: Path) -> Iterator[Service]:
    """The whole platform, and its dms-ingest as the demo user sees it."""
    port_base = 20_000 + os.getpid() % 20_000
    command: list[str | Path] = [
        Path(sys.executable).with_name("nexarch"),
        "up",
        "--home",
        home,
        "--port-base",
        str(port_base),
        "--no-demo",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoints = home / "endpoints.json"
        while not endpoints.exists():
            assert process.poll() is None, "nexarch up has ended"
            time.sleep(0.1)
        places = json.loads(endpoints.read_text())
        token = Service(places["core_api"]).call("POST", "/v1/auth/token", **places["demo"])["access_token"]
        yield Service(places["dms_ingest"], token)
    finally:
        process.terminate()
        process.wait()


def serve_floor(folder: str) -> None:
    """Run the bare receiver until killed; prints its port."""

    async def receive(request: web.Request) -> web.Response:
        file = os.open(Path(folder) / "floor", os.O_WRONLY | os.O_CREAT)
        offset = int(request.query["offset"])
        async for chunk in request.content.iter_any():
            offset += os.pwrite(file, chunk, offset)
        os.close(file)
        return web.Response()

    async def main() -> None:
        app = web.Application()
        app.router.add_put("/content", receive)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())


@contextmanager
def floor(folder: Path) -> Iterator[Service]:
    process = subprocess.Popen([sys.executable, __file__, "--floor", folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Service(f"http://127.0.0.1:{process.stdout.readline().strip()}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def complete_bare(source: Path, target: Path) -> float:
    """Read and hash in one thread, encrypt and write in another; returns the seconds."""
    cipher, nonce = AESGCM(os.urandom(32)), os.urandom(12)
    free: queue.Queue[memoryview] = queue.Queue()
    full: queue.Queue[memoryview | None] = queue.Queue()
    for _ in range(3):
        free.put(memoryview(bytearray(4 * SEGMENT)))

    def seal() -> None:
        out = bytearray(SEGMENT + 16)
        with target.open("wb", buffering=0) as file:
            while (chunk := full.get()) is not None:
                for start in range(0, len(chunk), SEGMENT):
                    piece = chunk[start : start + SEGMENT]
                    file.write(
                        memoryview(out)[: cipher.encrypt_into(nonce, piece, b"", memoryview(out)[: len(piece) + 16])]
                    )
                free.put(chunk.obj)  # type: ignore[arg-type]
            os.fsync(file.fileno())

    begin = time.perf_counter()
    thread = threading.Thread(target=seal)
    thread.start()
    digest = hashlib.sha256()
    with source.open("rb", buffering=0) as file:
        while count := file.readinto(buffer := memoryview(free.get())):
            digest.update(buffer[:count])
            full.put(buffer[:count])
    full.put(None)
    thread.join()
    return time.perf_counter() - begin


def report(case: str, **figures: float) -> None:
    print(json.dumps({"bench": "upload", "case": case} | figures), flush=True)


def compare(case: str, size: int, ours: list[float], floors: list[float]) -> None:
    ours_rate, floor_rate = size / min(ours) / 1e6, size / min(floors) / 1e6
    report(
        case,
        ours_mb_per_s=round(ours_rate),
        floor_mb_per_s=round(floor_rate),
        ratio=round(ours_rate / floor_rate, 3),
    )


def upload(ours: Service, content: memoryview, digest: str) -> tuple[float, float]:
    """Seconds of sending and of completing."""
    size = len(content)
    session = ours.call(
        "POST", "/v1/uploads", filename="bench.bin", mime_type="application/octet-stream", size=size, sha256=digest
    )
    path = f"/v1/uploads/{session['id']}"
    sending = ours.send(f"{path}/content", content)
    begin = time.perf_counter()
    document = ours.call("POST", f"{path}/complete")
    completing = time.perf_counter() - begin
    ours.call("DELETE", f"/v1/documents/{document['id']}")
    ours.call("POST", f"/v1/documents/{document['id']}/purge")
    return sending, completing


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else "1024") * MIB
    content = memoryview(os.urandom(64 * MIB) * -(-size // (64 * MIB)))[:size]
    digest = hashlib.sha256(content).hexdigest()
    small = content[: 64 * MIB]
    sending: list[float] = []
    completing: list[float] = []
    floor_sending: list[float] = []
    floor_completing: list[float] = []
    with tempfile.TemporaryDirectory() as folder, platform(Path(folder) / "home") as ours, floor(Path(folder)) as bare:
        with Watch(ours.url) as watch_small:
            upload(ours, small, hashlib.sha256(small).hexdigest())
        with Watch(ours.url) as watch:
            upload(ours, content, digest)
        for _ in range(ROUNDS):
            floor_sending.append(bare.send("/content", content))
            floor_completing.append(complete_bare(Path(folder) / "floor", Path(folder) / "sealed"))
            seconds = upload(ours, content, digest)
            sending.append(seconds[0])
            completing.append(seconds[1])
    compare("receive", size, sending, floor_sending)
    compare("complete_1gib", size, completing, floor_completing)
    report("memory", rss_mib_64=round(watch_small.peak, 1), rss_mib_1024=round(watch.peak, 1))
    report("loop_lag", p99_ms=round(sorted(watch.lags)[int(len(watch.lags) * 0.99)], 1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--floor"]:
        serve_floor(sys.argv[2])
    else:
        main()
