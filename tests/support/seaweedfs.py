"""A real S3 server for tests: SeaweedFS, which checks signatures, on ports of its own."""

import contextlib
import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from support.certificates import write_certificate

_READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.05
_ATTEMPTS = 3  # a port may be taken between our looking and the server's binding
_PR_SET_PDEATHSIG = 1
_FEW_VOLUMES = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}  # of the seven files that it would make for each bucket
_PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
    "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc", "s3.port.https",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server, and who may do everything there."""

    url: str
    https_url: str  # with a certificate that nobody trusts who is not told to
    certificate: Path
    access_key: str
    secret_key: str


class SeaweedFS:
    """A server that can be stopped and started again: on the same ports, with what it keeps in this folder."""

    def __init__(self, folder: Path) -> None:
        self._access_key, self._secret_key = _make_files(folder)
        self._folder = folder
        self._ports = _free_ports()
        self._running = ExitStack()

    @property
    def server(self) -> S3Server:
        """Where it is, or will be again."""
        return _server(self._folder, self._ports, self._access_key, self._secret_key)

    def start(self) -> None:
        """Start it and wait until it takes objects."""
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        with (self._folder / "log").open("ab") as log:
            command = _command(self._ports, data, self._folder)
            process = self._running.enter_context(_running(command, log.fileno()))
        _wait_ready(process, self._ports)

    def kill(self) -> None:
        """End it at once."""
        self._running.close()


@contextmanager
def run_seaweedfs(folder: Path) -> Iterator[S3Server]:
    """Start a server that keeps its data in this folder; ends it at the end."""
    access_key, secret_key = _make_files(folder)
    for attempt in range(_ATTEMPTS):
        ports = _free_ports()
        data = folder / f"data-{attempt}"
        data.mkdir()
        with (
            (folder / "log").open("wb") as log,
            _running(_command(ports, data, folder), log.fileno()) as server,
        ):
            try:
                _wait_ready(server, ports)
            except ChildProcessError:
                continue
            yield _server(folder, ports, access_key, secret_key)
            return
    raise AssertionError(f"SeaweedFS does not start: {(folder / 'log').read_text()[-2000:]}")


def _server(folder: Path, ports: dict[str, int], access_key: str, secret_key: str) -> S3Server:
    return S3Server(
        url=f"http://127.0.0.1:{ports['s3.port']}",
        https_url=f"https://127.0.0.1:{ports['s3.port.https']}",
        certificate=folder / "cert.pem",
        access_key=access_key,
        secret_key=secret_key,
    )


def _make_files(folder: Path) -> tuple[str, str]:
    """Make what the server is started with; returns access key and secret key of somebody who may do everything."""
    access_key, secret_key = "nexarch-tests", secrets.token_hex(20)
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    identities = {"identities": [{"name": "tests", "credentials": credentials, "actions": ["Admin"]}]}
    (folder / "s3.json").write_text(json.dumps(identities))
    write_certificate(folder / "cert.pem", folder / "key.pem")
    return access_key, secret_key


def _command(ports: dict[str, int], data: Path, folder: Path) -> list[str]:
    return [
        str(Path(sys.executable).with_name("weed")), "-logtostderr=true", "server",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}", "-filer", "-s3", f"-s3.config={folder / 's3.json'}",
        f"-s3.cert.file={folder / 'cert.pem'}", f"-s3.key.file={folder / 'key.pem'}",
        *(f"-{name}={port}" for name, port in ports.items()),
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-s3.autoCreateBucket=false",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=1024", "-volume.max=10000", "-volume.preStopSeconds=0",
    ]  # fmt: skip


@contextmanager
def _running(command: list[str], log: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        env=os.environ | _FEW_VOLUMES,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=_die_with_us,  # noqa: PLW1509 - nothing but one system call
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for left in Path("/tmp").glob("seaweedfs-*.sock"):  # it always puts its sockets there
            if any(str(argument).endswith(f"={left.stem.rpartition('-')[2]}") for argument in command):
                left.unlink(missing_ok=True)


def _die_with_us() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:
        ports = {}
        for name in _PORTS:
            listener = held.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports[name] = listener.getsockname()[1]
        return ports


def _wait_ready(server: subprocess.Popen[bytes], ports: dict[str, int]) -> None:
    """Return when it asks who we are, and has a place to write to; ChildProcessError if it ends."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ChildProcessError
        if _answers(ports["s3.port"], "/", HTTPStatus.FORBIDDEN) and _answers(ports["master.port"], "/dir/assign", 200):
            return
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError("SeaweedFS is not ready in time.")


def _answers(port: int, path: str, status: int) -> bool:
    with contextlib.suppress(OSError):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
                return bool(response.status == status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code == status
    return False
