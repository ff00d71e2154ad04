"""The platform that is measured, and how it feels meanwhile."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.upload_cases.clients import Connection, TusUpload

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Stage:
    """A running platform; connections are those of the demo user to dms-ingest."""

    url: str
    token: str
    ingest_pid: int

    def connect(self) -> Connection:
        """One more connection."""
        return Connection(self.url, {"Authorization": f"Bearer {self.token}"})

    def begin(self, connection: Connection, size: int, sha256: str) -> TusUpload:
        """Announce a file with its digest."""
        return TusUpload(connection, "/files/", size, filename="bench.bin", sha256=sha256)

    def forget_peak(self) -> None:
        """Let the next `peak_mib` be that of what comes now."""
        Path(f"/proc/{self.ingest_pid}/clear_refs").write_text("5")

    def peak_mib(self) -> float:
        """The most resident memory of dms-ingest."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.ingest_pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def open_stage(home: Path) -> Iterator[Stage]:
    """Start the whole platform in a folder of its own (`nexarch up`), and stop it at the end."""
    port_base = 20_000 + os.getpid() % 20_000
    nexarch = str(Path(sys.executable).with_name("nexarch"))
    process = subprocess.Popen(
        [nexarch, "up", "--home", str(home), "--port-base", str(port_base), "--no-demo"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        endpoints = home / "endpoints.json"
        while not endpoints.exists():
            assert process.poll() is None, "nexarch up has ended"
            time.sleep(0.1)
        places = json.loads(endpoints.read_text())
        answer = Connection(places["core_api"]).call("POST", "/v1/auth/token", **places["demo"])
        yield Stage(places["dms_ingest"], answer["access_token"], _child(process.pid, "dms_ingest"))
    finally:
        process.terminate()
        process.wait()


def _child(parent: int, name: str) -> int:
    """The process below another one whose command names a module."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if name in Path(f"/proc/{child}/cmdline").read_text():
            return int(child)
    raise LookupError(f"{name} is no child of {parent}")


class Lags:
    """Asks the service for a sign of life, over and over, from another thread; `ms` holds how long each took."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.ms: list[float] = []

    def __enter__(self) -> "Lags":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection = Connection(self._url)
        while not self._stop.wait(0.005):
            begin = time.perf_counter()
            connection.ask("GET", "/livez").read()
            self.ms.append((time.perf_counter() - begin) * 1000)
