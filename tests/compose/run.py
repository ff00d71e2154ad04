"""The compose file as a user meets it: build, start, work, scale, lose a container, look from inside, remove.

`make compose-test`; it needs a Docker engine and docker-compose 1.29 or newer, and leaves nothing but the images.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from compose import hardening
from compose.stack import SERVICES, Failed, Stack, docker, eventually, logs, require

_TENANT = "acme"
_EMAIL = "ada@example.org"
_WORD = "Quittenbrot"
_SMALL_FILES = 45
_MIB = 1 << 20

# Prints what a container says of itself.
_READY = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen('http://127.0.0.1:9000/readyz', timeout=4).status)
except urllib.error.HTTPError as error:
    print(error.status)
"""


@dataclass
class Walk:
    """One run; each step prints a line with what it saw and how long it took."""

    stack: Stack
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    password: str = ""
    token: str = ""
    started: float = field(default_factory=time.monotonic)

    def step(self, name: str, what: Callable[[], str]) -> None:
        """Do one step; `Failed` goes on up."""
        print(f"  {name:<44}", end="", flush=True)
        began = time.monotonic()
        said = what()
        print(f"{time.monotonic() - began:6.1f} s  {said}", flush=True)

    def all_steps(self) -> None:
        """Everything, in the order of a user's first day."""
        stack = self.stack
        self.step("the images are built", self.build)
        self.step("it starts with a copy of .env.example", self.up)
        self.step("a further start changes nothing", self.up_again)
        self.step("a tenant, a user, a login", self.make_tenant)
        self.step("upload, search, download", lambda: self.round_trip("first"))
        self.step("a large file, up, read and down", self.large_file)
        self.step("Prometheus has a metric of every service", self.metrics)
        self.step("strangers at core-api", lambda: hardening.check_strangers(stack.core_url, self.operator))
        self.step("strangers at dms-ingest", lambda: hardening.check_strangers(stack.ingest_url, self.token))
        self.step("strangers who ask for no path", lambda: hardening.check_no_path(stack.core_port, stack.ingest_port))
        self.step("the audit trail has the client's address", self.address)
        self.step("a line breaks in the middle of a body", self.line_breaks)
        self.step("core-api is away", self.without_core_api)
        self.step("three workers, two dms-ingest", self.scale)
        self.step("the workers share the jobs", self.share)
        self.step("an upload goes on at the other dms-ingest", self.go_on_elsewhere)
        self.step("rights, from outside", lambda: hardening.check_rights(stack))
        self.step("images", lambda: hardening.check_images(stack))
        self.step("logs are JSON", lambda: hardening.check_logs(stack))
        self.step("no secret in inspect, history, logs", lambda: hardening.check_nothing_tells(stack, self.secrets))
        self.step("from inside", lambda: hardening.check_from_inside(stack, self.secrets, _TENANT))
        self.step("the host dies, everything comes back", self.host_dies)
        self.step("a new start goes on with everything", self.restart)

    @property
    def operator(self) -> str:
        """The first operator's token."""
        return self.secrets["operator-token"]

    def build(self) -> str:
        self.stack.compose("build", within_s=1200)
        return "of the tree as it is"

    def up(self) -> str:
        self.stack.compose("up", "-d", "--build")
        self.stack.wait_healthy()
        self.secrets = self.stack.secrets()
        return f"{len(self.stack.everything())} services healthy"

    def up_again(self) -> str:
        """Else whoever scales, or changes one variable, restarts everything, Postgres included."""
        before = self.stack.everything()
        self.stack.compose("up", "-d")
        self.stack.wait_healthy()
        require(self.stack.everything() == before, "containers were made anew")
        return f"{len(before)} containers stayed"

    def make_tenant(self) -> str:
        operator = {"NEXARCH_OPERATOR_TOKEN": self.operator}
        self.nexarch("tenants", "create", _TENANT, **operator)
        user = self.nexarch("users", "create", _TENANT, _EMAIL, "--role", "admin", "--generate-password", **operator)
        self.password = user["password"]
        self.log_in()
        return f"{_EMAIL} of {_TENANT}"

    def log_in(self) -> None:
        body = {"tenant": _TENANT, "email": _EMAIL, "password": self.password}
        self.token = self.call("POST", f"{self.stack.core_url}/v1/auth/token", json.dumps(body).encode())[
            "access_token"
        ]

    def round_trip(self, name: str) -> str:
        text, blob = self.folder / f"{name}.txt", self.folder / f"{name}.bin"
        text.write_text(f"Die Sitzung {name} beschloss: {_WORD}{name} für alle.\n" * 2000, encoding="utf-8")
        blob.write_bytes(os.urandom(20 * _MIB + 1))
        items = [
            *self.nexarch("upload", "--wait", str(text))["items"],
            *self.nexarch("upload", str(blob))["items"],
        ]
        hits = self.nexarch("search", f"{_WORD}{name}")["items"]
        require([hit["document_id"] for hit in hits] == [items[0]["document"]["id"]], f"found: {hits}")
        for item, file in zip(items, (text, blob), strict=True):
            self.compare(item["document"]["id"], file)
        return f"{_size(text)} and {_size(blob)} came back as they went in"

    def compare(self, document_id: str, file: Path) -> None:
        back = self.folder / "back"
        self.nexarch("download", document_id, "--output", str(back), "--force")
        require(_sha256(back) == _sha256(file), f"{file.name} came back different")

    def large_file(self) -> str:
        """As large as the memory of the object store: each container keeps to its own."""
        file = self.folder / "large.bin"
        with file.open("wb") as opened:
            opened.write(b"NEXARCH")
            opened.truncate(1024 * _MIB)
        (item,) = self.nexarch("upload", str(file))["items"]
        document = item["document"]["id"]
        self.compare(document, file)
        url = f"{self.stack.ingest_url}/v1/documents/{document}"
        eventually(lambda: self.call("GET", url, None)["processing_state"] == "failed", within_s=180)  # it is no text
        for service, ids in self.stack.everything().items():
            for container in ids:
                restarts = self.stack.inspect(container)["RestartCount"]
                require(restarts == 0, f"{service} died {restarts} times")
        return f"{_size(file)}; nothing died of it"

    def metrics(self) -> str:
        def complete() -> bool:
            seen = self.query("count by (service) (nexarch_http_requests_total)")
            return {sample["metric"]["service"] for sample in seen} == set(SERVICES)

        eventually(complete, within_s=90)
        return "nexarch_http_requests_total"

    def query(self, promql: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:9090/api/v1/query?query={quote(promql)}"
        said = docker("exec", self.stack.containers("prometheus")[0], "wget", "-q", "-O", "-", url)
        samples: list[dict[str, Any]] = json.loads(said)["data"]["result"]
        return samples

    def address(self) -> str:
        """`front` says who came to it; what a client says of itself counts for nothing."""
        claimed = "192.0.2.77"
        upload = self.announce(b"x")
        self.call("PUT", f"{upload}/content?offset=0", b"x")
        document = self.call("POST", f"{upload}/complete", b"", {"X-Forwarded-For": claimed})
        (event,) = self.call("GET", f"{self.stack.ingest_url}/v1/audit?document={document['id']}", None)["items"]
        networks = self.stack.inspect(self.stack.containers("front")[0])["NetworkSettings"]["Networks"]
        fronts = {network["IPAddress"] for network in networks.values()}
        require(event["address"] not in {None, claimed, *fronts}, f"{event['address']}; that of front is {fronts}")
        return str(event["address"])

    def line_breaks(self) -> str:
        """What had arrived when the line of a client broke is there: no proxy kept it, or waits for more."""
        content = os.urandom(8 * _MIB)
        upload = self.announce(content)
        target = urlsplit(upload)
        head = (
            f"PUT {target.path}/content?offset=0 HTTP/1.1\r\nHost: {target.netloc}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        sent = content[: len(content) // 2]
        with socket.create_connection((target.hostname, target.port), timeout=60) as line:
            line.sendall(head.encode() + sent)

        def received() -> int:
            found = sum(end - start for start, end in self.ranges(upload))
            return found if found > 0.9 * len(sent) else 0

        began = time.monotonic()
        kept = eventually(received, within_s=30)
        require(self.ranges(upload) == [(0, kept)], "they are not the first ones")
        self.call("PUT", f"{upload}/content?offset={kept}", content[kept:])
        self.call("POST", f"{upload}/complete", b"")
        return f"{kept} of {len(sent)} bytes were kept after {time.monotonic() - began:.1f} s"

    def ranges(self, upload: str) -> list[tuple[int, int]]:
        """What of an upload has come."""
        return [(found["start"], found["end"]) for found in self.call("GET", upload, None)["received"]]

    def announce(self, content: bytes) -> str:
        """Open an upload, and return its URL."""
        url = f"{self.stack.ingest_url}/v1/uploads"
        body = {"filename": "announced.bin", "mime_type": "application/octet-stream", "size": len(content)}
        return f"{url}/{self.call('POST', url, json.dumps(body).encode())['id']}"

    def without_core_api(self) -> str:
        """dms-ingest is not ready then, and still it does what it can: `front` leads there.

        Of two, the other one would lack the key of the staged bytes.
        """
        content = os.urandom(8 * _MIB)
        half = len(content) // 2
        upload = self.announce(content)
        self.call("PUT", f"{upload}/content?offset=0", content[:half])
        (core,), (front,) = self.stack.containers("core-api"), self.stack.containers("front")
        docker("kill", core)  # for good: Docker starts again what died by itself
        try:
            eventually(lambda: self.stack.python(front, _READY).strip() == "503", within_s=60)
            self.call("PUT", f"{upload}/content?offset={half}", content[half:])
            require(self.refusal("POST", f"{upload}/complete") == "503 core-api-away", "it is completed")
        finally:
            docker("start", core)
        self.stack.wait_healthy()
        self.call("POST", f"{upload}/complete", b"")
        return "bytes are taken; completing waits for it"

    def scale(self) -> str:
        self.stack.compose("up", "-d", "--no-build", "--scale", "dms-worker=3", "--scale", "dms-ingest=2")
        self.stack.wait_healthy()
        require(len(self.stack.containers("dms-worker")) == 3, "not three workers")
        require(len(self.stack.containers("dms-ingest")) == 2, "not two dms-ingest")
        return "healthy"

    def share(self) -> str:
        files = [self.folder / f"note-{number}.txt" for number in range(_SMALL_FILES)]
        for file in files:
            file.write_text(f"Notiz {file.stem}\n")
        before = self.finished()
        states = [
            item["document"]["processing_state"] for item in self.nexarch("upload", "--wait", *map(str, files))["items"]
        ]
        require(states == ["processed"] * _SMALL_FILES, f"states: {states}")
        done = [now - then for now, then in zip(self.finished(), before, strict=True)]
        require(sum(done) >= _SMALL_FILES and all(done), f"jobs of each worker: {done}")
        return " + ".join(map(str, done)) + " jobs"

    def finished(self) -> list[int]:
        """Jobs that each worker has ended."""
        program = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9000/metrics').read().decode())"
        pattern = r"^nexarch_jobs_finished_total\{.*\} ([0-9.e+]+)$"
        pages = [self.stack.python(worker, program) for worker in self.stack.containers("dms-worker")]
        return [sum(int(float(n)) for n in re.findall(pattern, page, re.MULTILINE)) for page in pages]

    def go_on_elsewhere(self) -> str:
        """Send half of a file, kill the dms-ingest that took it, and send the rest to the same address."""
        self.log_in()
        content = os.urandom(8 * _MIB)
        half = len(content) // 2
        upload = self.announce(content)
        request_id = uuid4().hex
        self.call("PUT", f"{upload}/content?offset=0", content[:half], {"X-Request-Id": request_id})
        replicas = self.stack.containers("dms-ingest")
        (first,) = [replica for replica in replicas if request_id in logs(replica)]
        docker("kill", first)
        try:
            self.call_until("PUT", f"{upload}/content?offset={half}", content[half:])
            document = self.call_until("POST", f"{upload}/complete", b"")
        finally:
            docker("start", first)
        file = self.folder / "halves.bin"
        file.write_bytes(content)
        self.compare(document["id"], file)
        self.stack.wait_healthy()
        return "after the first one was killed"

    def host_dies(self) -> str:
        running = self.stack.compose("ps", "-q").split()
        running = [container for container in running if self.stack.inspect(container)["State"]["Running"]]
        docker("kill", *running)
        docker("start", *running)  # at once: after a boot the engine knows nothing of an order
        self.stack.wait_healthy()
        self.compare_found("first")
        return f"{len(running)} containers killed, and started in no order"

    def restart(self) -> str:
        self.stack.compose("down")
        self.stack.compose("up", "-d", "--no-build")
        self.stack.wait_healthy()
        require(self.stack.secrets() == self.secrets, "the secrets changed")
        self.compare_found("first")
        return "and with the same secrets"

    def compare_found(self, name: str) -> None:
        hits = self.nexarch("search", f"{_WORD}{name}")["items"]
        require(len(hits) == 1, f"found: {hits}")
        self.compare(hits[0]["document_id"], self.folder / f"{name}.txt")

    def nexarch(self, *arguments: str, **variables: str) -> Any:  # noqa: ANN401 - JSON
        """The command line tool against the published ports; its JSON."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "NEXARCH_CORE_URL": self.stack.core_url,
            "NEXARCH_INGEST_URL": self.stack.ingest_url,
        }
        if self.password:
            self.log_in()
            environment["NEXARCH_TOKEN"] = self.token
        program = Path(sys.executable).with_name("nexarch")
        done = subprocess.run(
            [program, *arguments, "--json"],
            env=environment | variables, cwd=self.folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        require(done.returncode == 0, f"nexarch {arguments[0]}: {done.stderr[-2000:]}")
        return json.loads(done.stdout) if done.stdout else None

    def call(self, method: str, url: str, body: bytes | None, headers: dict[str, str] | None = None) -> Any:  # noqa: ANN401
        """The JSON that a service answers."""
        given = {"Content-Type": "application/json" if method == "POST" else "application/octet-stream"}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(url, data=body, headers=given | (headers or {}), method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def refusal(self, method: str, url: str) -> str:
        """Status and code of a request without a body that has to be refused, and to say when to come again."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                raise Failed(f"{method} {url} was answered {answer.status}")
        except urllib.error.HTTPError as error:
            require("Retry-After" in error.headers, f"{error.status} without Retry-After")
            return f"{error.status} {json.load(error)['type'].rpartition('/')[2]}"

    def call_until(self, method: str, url: str, body: bytes) -> Any:  # noqa: ANN401 - JSON
        """The same, again after a broken line: the front needs a moment to see who is gone."""

        def attempt() -> Any:  # noqa: ANN401
            try:
                return self.call(method, url, body)
            except OSError:
                return None

        return eventually(attempt, within_s=60)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _size(file: Path) -> str:
    return f"{file.stat().st_size / _MIB:.1f} MiB"


def main() -> None:
    """Run all steps; 0 if all went well, 1 with the reason if not. The stack is removed in either case."""
    with tempfile.TemporaryDirectory(prefix="nexarch-compose-") as name:
        walk = Walk(Stack(Path(name)), Path(name))
        print(f"compose project {walk.stack.project}, {' '.join(walk.stack.command)}", flush=True)
        try:
            walk.all_steps()
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            sys.exit(f"FAILED\n{error}")
        finally:
            walk.step(
                "everything is removed",
                lambda: walk.stack.compose("down", "--volumes", "--remove-orphans", "--timeout", "1") or "",
            )
        print(f"  all is well, {time.monotonic() - walk.started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
