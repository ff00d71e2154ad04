"""The folder that `nexarch up` works in: what lies where, which port is whose, and the secrets."""

import fcntl
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from nexarch.private_files import SecretFolder, write_private

SERVICES = ("core-api", "dms-ingest", "dms-worker", "alerter")
_POSTGRES_OFFSET = len(SERVICES)


class PortTaken(Exception):
    """Another process listens on a port that we need."""


class HomeRefused(Exception):
    """The folder cannot be written, or another `nexarch up` works in it."""


class Demo(TypedDict):
    """The tenant and the user of the demonstration."""

    tenant: str
    email: str
    password: str


class Endpoints(TypedDict):
    """What `endpoints.json` holds."""

    core_api: str
    dms_ingest: str
    dms_worker: str
    alerter: str
    operator_token: str
    registry_dsn: str
    demo: Demo


@dataclass(frozen=True, slots=True)
class Home:
    """`folder` and the first of five ports: the four services in the order of `SERVICES`, then Postgres."""

    folder: Path
    port_base: int

    @property
    def postgres_port(self) -> int:
        """Where Postgres listens."""
        return self.port_base + _POSTGRES_OFFSET

    @property
    def secrets(self) -> SecretFolder:
        """Keys, passwords and credentials."""
        return SecretFolder(self.folder / "secrets")

    @property
    def endpoints_file(self) -> Path:
        """Where everything can be reached, with the operator's token: readable by the owner only."""
        return self.folder / "endpoints.json"

    def port(self, service: str) -> int:
        """The port of a service."""
        return self.port_base + SERVICES.index(service)

    def url(self, service: str) -> str:
        """The address of a service."""
        return f"http://127.0.0.1:{self.port(service)}"

    def log(self, service: str) -> Path:
        """The file that takes a service's log."""
        return self.folder / "logs" / f"{service}.log"

    def make(self) -> None:
        """Make the folders; done again, it changes nothing."""
        try:
            for folder in (self.folder, self.folder / "logs", self.folder / "staging", self.folder / "objects"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HomeRefused(
                f"{error.filename} cannot be made: {error.strerror}. Choose a folder with --home."
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the folder to this process; `HomeRefused` while another has it. The lock ends with the process."""
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise HomeRefused(
                    f"Another `nexarch up` works in {self.folder}: stop it, or choose another folder with --home."
                ) from error
            yield

    def write_endpoints(self, endpoints: Endpoints) -> None:
        """Write `endpoints.json`; who waits for the file may use it as soon as it is there."""
        write_private(self.endpoints_file, json.dumps(endpoints, indent=2) + "\n")

    def refuse_taken_ports(self) -> None:
        """Raise `PortTaken` before anything is started."""
        ports = {service: self.port(service) for service in SERVICES} | {"PostgreSQL": self.postgres_port}
        for name, port in ports.items():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise PortTaken(
                        f"Port {port}, meant for {name}, is taken: stop what listens there, or choose five free ports "
                        f"in a row with --port-base (`make run PORT_BASE=...`), now {self.port_base}."
                    ) from error
