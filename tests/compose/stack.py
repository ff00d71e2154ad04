"""The compose project of one run: a name and ports of its own, so that it stands beside any other."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
SERVICES = ("core-api", "dms-ingest", "dms-worker", "alerter")
_LOOK_EVERY_S = 0.5

T = TypeVar("T")


class Failed(Exception):
    """Something is not as it should be; the text says what."""


def _compose_command() -> list[str]:
    if shutil.which("docker") is None:
        sys.exit("There is no Docker here: install an engine and docker-compose (Debian: docker.io, docker-compose).")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        sys.exit("No Docker engine answers: start one, or set DOCKER_HOST to where it listens.")
    if chosen := os.environ.get("COMPOSE"):
        return shlex.split(chosen)
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        sys.exit("There is no compose here: install docker-compose 1.29 or newer, or Docker's compose plugin.")
    return ["docker-compose"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Stack:
    """`docker-compose` on this repository's file, with a copy of .env.example as its .env."""

    folder: Path
    project: str = field(default_factory=lambda: f"nexarchtest{os.getpid()}")
    command: Sequence[str] = field(default_factory=_compose_command)
    core_port: int = field(default_factory=_free_port)
    ingest_port: int = field(default_factory=_free_port)

    @property
    def core_url(self) -> str:
        """Where core-api is published."""
        return f"http://127.0.0.1:{self.core_port}"

    @property
    def ingest_url(self) -> str:
        """Where every dms-ingest is published."""
        return f"http://127.0.0.1:{self.ingest_port}"

    def compose(self, *arguments: str, within_s: float = 600.0) -> str:
        """Run a command of compose and return its stdout; `Failed` with the end of its output if it fails."""
        environment = os.environ | {
            "COMPOSE_PROJECT_NAME": self.project,
            "CORE_API_PUBLISHED_PORT": str(self.core_port),
            "DMS_INGEST_PUBLISHED_PORT": str(self.ingest_port),
        }
        settings = self.folder / ".env"
        if not settings.exists():
            shutil.copy(ROOT / ".env.example", settings)
        command = [*self.command, "--env-file", str(settings), *arguments]
        return _run(command, environment=environment, within_s=within_s)

    def containers(self, service: str) -> list[str]:
        """The ids of a service's containers, those that ended included."""
        return self.compose("ps", "-a", "-q", service).split()

    def everything(self) -> dict[str, list[str]]:
        """Every container's id, by service."""
        return {service: self.containers(service) for service in self.compose("config", "--services").split()}

    def inspect(self, container: str) -> Any:  # noqa: ANN401 - JSON of Docker
        """What Docker knows of a container."""
        return json.loads(docker("inspect", container))[0]

    def wait_healthy(self, within_s: float = 180.0) -> None:
        """Return when every container is healthy, or ended with 0 where it runs once."""
        waiting: list[str] = []

        def well() -> bool:
            states = {s: [self.inspect(c)["State"] for c in ids] for s, ids in self.everything().items()}
            waiting[:] = [service for service, found in states.items() if not found or not all(map(_well, found))]
            return not waiting

        try:
            eventually(well, within_s)
        except Failed as error:
            logs = self.compose("logs", "--no-color", "--tail", "30", *waiting)
            raise Failed(f"not healthy within {within_s:.0f} s: {', '.join(waiting)}\n{logs}") from error

    def python(self, container: str, program: str, stdin: str = "", user: str | None = None) -> str:
        """Run a Python program inside a container."""
        as_user = [] if user is None else ["--user", user]
        return docker("exec", "-i", *as_user, container, "python3", "-c", program, stdin=stdin)

    def secrets(self) -> dict[str, str]:
        """Every secret of the platform by its name, from the volume that no service sees."""
        program = (
            "import json, pathlib; print(json.dumps({p.name: p.read_text().strip()"
            " for p in pathlib.Path('/secrets/platform').iterdir()}))"
        )
        secrets: dict[str, str] = json.loads(self.once("bootstrap", "python", "-c", program))
        return secrets

    def once(self, service: str, *command: str) -> str:
        """Run a command in a new container of a service, and return its stdout."""
        return self.compose("run", "--rm", "--no-deps", "-T", service, *command)


def docker(*arguments: str, stdin: str = "") -> str:
    """Run a command of the engine and return its stdout."""
    return _run(["docker", *arguments], stdin=stdin)


def logs(container: str) -> str:
    """All that a container has logged, on stdout and stderr."""
    command = ["docker", "logs", container]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout


def eventually(done: Callable[[], T], within_s: float) -> T:
    """Ask until the answer is true; `Failed` with the last answer if it never is."""
    deadline = time.monotonic() + within_s
    while not (answer := done()):
        if time.monotonic() > deadline:
            raise Failed(f"not within {within_s:.0f} s; the last answer: {answer!r}")
        time.sleep(_LOOK_EVERY_S)
    return answer


def require(fact: object, otherwise: str) -> None:
    """`Failed` unless the fact holds."""
    if not fact:
        raise Failed(otherwise)


def _well(state: Any) -> bool:  # noqa: ANN401 - JSON of Docker
    if state["Status"] == "exited":
        return bool(state["ExitCode"] == 0)
    return bool(state["Status"] == "running" and state.get("Health", {}).get("Status") == "healthy")


def _run(
    command: Sequence[str], *, environment: dict[str, str] | None = None, stdin: str = "", within_s: float = 600.0
) -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=within_s
    )
    if done.returncode != 0:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}".strip()
        raise Failed(f"{' '.join(command[:8])} ... ended with {done.returncode}:\n{said}")
    return done.stdout
