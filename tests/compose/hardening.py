"""What a container may do, what it holds, and what it can reach: seen from the host and from inside."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping

from compose.stack import SERVICES, Stack, docker, logs, require
from nexarch import containers

_SIZE_LIMIT = 250_000_000  # bytes, of core-api's image
_PUBLISHED = {"core-api", "front"}

# Prints the paths of files and of environments that hold one of the texts on stdin.
_SEARCH = """
import json, os, pathlib, sys
secrets = {name: text.encode() for name, text in json.load(sys.stdin).items()}
found = []
def look(path):
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError:
        return
    found.extend(f"{name} in {path}" for name, text in secrets.items() if text in data)
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "sys", "dev")]
    for name in files:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 1 << 20:
            look(path)
for process in filter(str.isdigit, os.listdir("/proc")):
    look(f"/proc/{process}/environ")
    look(f"/proc/{process}/cmdline")
print(json.dumps(found))
"""

# Prints which tables of the registry the event bus's role can read, and which other roles take its password.
_DATABASE = """
import asyncio, json, pathlib, sys, urllib.parse, asyncpg
dsn = pathlib.Path("/run/secrets/bus-dsn").read_text().strip()
parts = urllib.parse.urlsplit(dsn)
tenant_database = sys.stdin.read().strip()
async def main():
    conn = await asyncpg.connect(dsn)
    tables = await conn.fetch('''
        SELECT c.oid::regclass::text AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
    ''')
    readable = []
    for table in tables:
        try:
            await conn.fetch(f"SELECT * FROM {table['name']} LIMIT 1")
        except asyncpg.InsufficientPrivilegeError:
            continue
        readable.append(table["name"])
    await conn.close()
    entered = []
    others = [("postgres", "postgres"), ("nexarch_core", "nexarch_registry"), ("nexarch_bus", tenant_database)]
    for user, database in others:
        try:
            await (await asyncpg.connect(host=parts.hostname, port=parts.port, user=user, database=database,
                password=urllib.parse.unquote(parts.password))).close()
        except (asyncpg.InvalidPasswordError, asyncpg.InsufficientPrivilegeError):
            continue
        entered.append(f"{user} in {database}")
    print(json.dumps({"tables": len(tables), "readable": readable, "entered": entered}))
asyncio.run(main())
"""

# Prints which of the addresses on stdin take a connection.
_REACH = """
import json, socket, sys
reached = []
for host, port in json.load(sys.stdin):
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        continue
    reached.append([host, port])
print(json.dumps(reached))
"""


def check_rights(stack: Stack) -> str:
    """Every container without rights, with bounded memory; nothing published but two ports on this computer."""
    published = set()
    for service, ids in stack.everything().items():
        for container in ids:
            found = stack.inspect(container)
            host, user = found["HostConfig"], found["Config"]["User"]
            require(host["ReadonlyRootfs"], f"{service} can write its root file system")
            require(host["CapDrop"] == ["ALL"] and not host["CapAdd"], f"{service} has capabilities")
            require("no-new-privileges:true" in host["SecurityOpt"], f"{service} can gain rights")
            require(host["Memory"] > 0, f"{service} has no memory limit")
            require(not host["Privileged"] and user not in {"", "0", "root"}, f"{service} runs as {user or 'root'}")
            for bindings in (found["NetworkSettings"]["Ports"] or {}).values():
                for binding in bindings or []:
                    published.add(service)
                    require(binding["HostIp"] == "127.0.0.1", f"{service} is published on {binding['HostIp']}")
    require(published == _PUBLISHED, f"published are {published}")
    return "read-only, no capabilities, no root; two ports, on 127.0.0.1"


def check_images(stack: Stack) -> str:
    """Our images say their version, run as nobody in particular, hold no compiler; core-api's is small."""
    size = 0
    for service in SERVICES:
        image = stack.inspect(stack.containers(service)[0])["Image"]
        found = json.loads(docker("image", "inspect", image))[0]
        require(found["Config"]["Labels"].get("org.opencontainers.image.version"), f"{service} has no version label")
        compilers = "import shutil; print(*filter(shutil.which, ['gcc', 'cc', 'c++', 'make', 'ld', 'rustc']))"
        there = stack.python(stack.containers(service)[0], compilers).split()
        require(not there, f"{service} has {there}")
        if service == "core-api":
            size = found["Size"]
            require(size < _SIZE_LIMIT, f"core-api's image has {size} bytes")
    return f"core-api's image: {size / 1e6:.0f} MB"


def check_nothing_tells(stack: Stack, secrets: Mapping[str, str]) -> str:
    """No secret in what Docker says of containers and images, nor in a log."""
    texts = {}
    for service, ids in stack.everything().items():
        for container in ids:
            found = stack.inspect(container)
            texts[f"inspect of {service}"] = json.dumps(found)
            texts[f"image of {service}"] = docker("image", "inspect", found["Image"])
            texts[f"history of {service}"] = docker("history", "--no-trunc", found["Image"])
    texts["the logs"] = stack.compose("logs", "--no-color")
    for place, text in texts.items():
        told = [name for name, secret in secrets.items() if not name.endswith("client-id") and secret in text]
        require(not told, f"{place}: {told}")
    return f"{len(secrets)} secrets, {len(texts)} texts"


def check_logs(stack: Stack) -> str:
    """Every line that a service logs is a JSON object."""
    lines = 0
    for service in SERVICES:
        for line in logs(stack.containers(service)[0]).splitlines():
            require(json.loads(line)["service"] == service, f"{service} logs {line}")
            lines += 1
    require(lines > len(SERVICES), "the services log nothing")
    return f"{lines} lines"


def check_from_inside(stack: Stack, secrets: Mapping[str, str], tenant: str) -> str:
    """No service finds another's secret or a table of the registry; the stores answer those with a key alone."""
    for service in SERVICES:
        own = [secrets[name] for name in containers.SERVICES[service]]
        foreign = {name: text for name, text in secrets.items() if not any(text in mine for mine in own)}
        container = stack.containers(service)[0]
        found = json.loads(stack.python(container, _SEARCH, json.dumps(foreign)))
        require(not found, f"inside {service}: {found}")
    for service in ("dms-ingest", "dms-worker"):
        container = stack.containers(service)[0]
        seen = json.loads(stack.python(container, _DATABASE, f"tenant_{tenant}"))
        require(seen["tables"] > 5 and not seen["readable"] and not seen["entered"], f"{service}: {seen}")
    unreachable = {
        "alerter": [("postgres", 5432), ("object-store", 8333), ("front", 8090)],
        "core-api": [("object-store", 8333)],
        "dms-ingest": [("object-store", port) for port in (8888, 9333, 8080, 18888, 19333)],
        "dms-worker": [("192.0.2.1", 443), ("front", 8090)],
    }
    for service, addresses in unreachable.items():
        reached = json.loads(stack.python(stack.containers(service)[0], _REACH, json.dumps(addresses)))
        require(not reached, f"{service} reaches {reached}")
    return "secrets, registry and networks"


def check_strangers(url: str, token: str) -> str:
    """Without credentials every route that the service tells of is 401 or 404."""
    request = urllib.request.Request(f"{url}/openapi.json", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document = json.load(answer)
    asked = 0
    for path, methods in document["paths"].items():
        for method in methods:
            status = _status(method.upper(), url + path.replace("{", "").replace("}", ""))
            require(status in {401, 404}, f"{method.upper()} {path} answers a stranger with {status}")
            asked += 1
    return f"{asked} routes of {document['info']['title']}"


def check_no_path(*ports: int) -> str:
    """A request without a path is 404 where it can be read, and 400 where not: never a service's own trouble."""
    lines = {"OPTIONS *": {404}, "CONNECT elsewhere.example.org:80": {404}, "PRI * HTTP/2.0\r\n\r\nSM": {400, 404}}
    for port in ports:
        for line, statuses in lines.items():
            with socket.create_connection(("127.0.0.1", port), timeout=30) as sent:
                target = line if "HTTP/2" in line else f"{line} HTTP/1.1\r\nHost: elsewhere.example.org:80"
                sent.sendall(f"{target}\r\n\r\n".encode())
                said = sent.recv(4096)
            require(said.startswith(b"HTTP/1."), f"{line} at port {port}: {said!r}")
            require(int(said.split()[1]) in statuses, f"{line} at port {port}: {said!r}")
    return f"{len(lines)} requests at each port"


def _status(method: str, url: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
