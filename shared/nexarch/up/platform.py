"""Postgres, the bootstrap and the four services, in the order in which they need each other."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nexarch.bootstrap_db import bus_dsn, core_dsn, create_roles_and_registry
from nexarch.db import connect
from nexarch.migrate import read_migrations
from nexarch.migrate_tenants import list_tenant_databases, migrate_tenants
from nexarch.postgres import PostgresServer
from nexarch.up.home import SERVICES, Home
from nexarch.up.processes import ServiceProcess

_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "NEXARCH_MIGRATIONS_DIR")

Say = Callable[[str], None]


class BootstrapFailed(Exception):
    """The registry or a tenant's database cannot be brought to this release; the text says why."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What runs."""

    home: Home
    postgres: PostgresServer
    services: list[ServiceProcess]

    @property
    def operator_token(self) -> str:
        """The first operator's token."""
        return (self.home.secrets / "operator-token").read_text().strip()


@asynccontextmanager
async def running_platform(home: Home, say: Say) -> AsyncIterator[Platform]:
    """Start everything under `home`, or go on with what lies there; stops all of it at the end, Postgres last."""
    home.refuse_taken_ports()
    home.make()
    postgres = PostgresServer(home.folder / "postgres", home.postgres_port)
    say(f"PostgreSQL 18 on port {home.postgres_port}")
    await asyncio.to_thread(postgres.start)
    try:
        say("registry, roles, keys and credentials")
        await _bootstrap(home, postgres)
        await _migrate_tenants(home)
        services = [_service(home, name) for name in SERVICES]
        say("the four services")
        async with _supervised(services):
            await asyncio.gather(*(service.wait_ready() for service in services))
            yield Platform(home, postgres, services)
    finally:
        say("stopping PostgreSQL")
        await asyncio.to_thread(postgres.stop)


@asynccontextmanager
async def _supervised(services: list[ServiceProcess]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(service.run(), name=service.name) for service in services]
    try:
        yield
    finally:
        # Those that use core-api stop first.
        await asyncio.gather(*(service.stop() for service in services[1:]))
        await services[0].stop()
        await asyncio.gather(*tasks)


async def _bootstrap(home: Home, postgres: PostgresServer) -> None:
    core_password, bus_password = home.secret("core-password"), home.secret("bus-password")
    await create_roles_and_registry(postgres.dsn(), core_password, bus_password)
    home.write_secret("registry-dsn", core_dsn(postgres.dsn(), core_password))
    home.write_secret("bus-dsn", bus_dsn(postgres.dsn(), bus_password))
    home.secret("master-key", key=True)
    home.secret("link-key", key=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "core_api.bootstrap", "--out", str(home.secrets),
        env=environment(home, "core-api"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise BootstrapFailed(output.decode(errors="replace"))


async def _migrate_tenants(home: Home) -> None:
    """Bring the databases that an earlier release made to this one's schema; the bootstrap did so for the registry."""
    dsn = home.secret("registry-dsn")
    conn = await connect(dsn, application_name="nexarch-up")
    try:
        tenants = await list_tenant_databases(conn)
    finally:
        await conn.close()
    async for tenant in migrate_tenants(dsn, tenants, read_migrations("tenant")):
        if tenant.error is not None:
            raise BootstrapFailed(f"The database of tenant {tenant.slug} cannot be migrated: {tenant.error}")


def _service(home: Home, name: str) -> ServiceProcess:
    return ServiceProcess(name, name.replace("-", "_"), environment(home, name), home.url(name), home.log(name))


def environment(home: Home, service: str) -> dict[str, str]:
    """The variables of one service: its own secrets as files, and nothing of the others'."""
    secret = home.secrets.joinpath
    own: dict[str, str] = {
        "HOST": "127.0.0.1",
        "PORT": str(home.port(service)),
        "LOG_FORMAT": "console",
        "DRAIN_DELAY_S": "0",  # no balancer stands in front
        "GRACE_PERIOD_S": "15",
    }
    module = service.replace("-", "_")
    if service == "core-api":
        own |= {
            "REGISTRY_DSN_FILE": str(secret("registry-dsn")),
            "MASTER_KEY_FILE": str(secret("master-key")),
        }
    else:
        own |= {
            "CORE_API_URL": home.url("core-api"),
            "CLIENT_ID": _content(home, f"{module}.client-id"),
            "CLIENT_SECRET_FILE": str(secret(f"{module}.client-secret")),
            "BASE_URL": home.url(service),
        }
    if service in {"dms-ingest", "dms-worker"}:
        own |= {"BUS_DSN_FILE": str(secret("bus-dsn")), "STORAGE_DIR": str(home.folder / "objects")}
    if service == "dms-ingest":
        own |= {"STAGING_DIR": str(home.folder / "staging"), "LINK_KEY_FILE": str(secret("link-key"))}
    prefix = module.upper() + "_"
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | {prefix + name: value for name, value in own.items()}


def _content(home: Home, name: str) -> str:
    file = home.secrets / name
    return file.read_text().strip() if file.exists() else ""
