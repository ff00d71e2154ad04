"""Postgres, the bootstrap and the four services, in the order in which they need each other."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nexarch.bootstrap import bootstrap
from nexarch.migrate_tenants import migrate_every_tenant
from nexarch.postgres import PostgresServer
from nexarch.up.home import SERVICES, Home
from nexarch.up.postgres_keeper import adopt_daemons, keep_running, to_the_end
from nexarch.up.processes import ServiceProcess

_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "NEXARCH_MIGRATIONS_DIR")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Platform:
    """What runs."""

    home: Home
    postgres: PostgresServer
    services: list[ServiceProcess]

    @property
    def operator_token(self) -> str:
        """The first operator's token."""
        return _secret(self.home, "operator-token")

    @property
    def registry_dsn(self) -> str:
        """The registry's address, as its owner."""
        return _secret(self.home, "registry-dsn")


@asynccontextmanager
async def running_platform(home: Home, say: Say) -> AsyncIterator[Platform]:
    """Start everything under `home`, or go on with what lies there; stops all of it at the end, Postgres last."""
    home.make()
    with home.locked():
        async with _running_postgres(home, say) as postgres:
            say("registry, roles, keys and credentials")
            await bootstrap(postgres.dsn(), home.secrets)
            await migrate_every_tenant(_secret(home, "registry-dsn"))
            services = [_service(home, name) for name in SERVICES]
            say("the four services")
            async with _supervised(services):
                await asyncio.gather(*(service.wait_ready() for service in services))
                yield Platform(home, postgres, services)


@asynccontextmanager
async def _running_postgres(home: Home, say: Say) -> AsyncIterator[PostgresServer]:
    """The server of this folder, started again whenever it dies."""
    postgres = PostgresServer(home.folder / "postgres", home.postgres_port)
    # We hold the lock: a server that runs was left by a `nexarch up` that was killed, perhaps on other ports.
    await to_the_end(postgres.stop)
    home.refuse_taken_ports()
    say(f"PostgreSQL 18 on port {home.postgres_port}")
    adopt_daemons()
    try:
        await to_the_end(postgres.start)
        keeper = asyncio.create_task(keep_running(postgres, say), name="keep PostgreSQL running")
        try:
            yield postgres
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
    finally:
        say("stopping PostgreSQL")
        await to_the_end(postgres.stop)


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


def _service(home: Home, name: str) -> ServiceProcess:
    return ServiceProcess(name, name.replace("-", "_"), environment(home, name), home.url(name), home.log(name))


def environment(home: Home, service: str) -> dict[str, str]:
    """The variables of one service: its own secrets as files, and nothing of the others'.

    Its settings in our own environment count, as DMS_INGEST_STORAGE_DRIVER; but addresses and secrets are ours.
    """
    secret = home.secrets.file
    defaults = {
        "LOG_FORMAT": "console",
        "DRAIN_DELAY_S": "0",  # no balancer stands in front
        "GRACE_PERIOD_S": "15",
    }
    own: dict[str, str] = {"HOST": "127.0.0.1", "PORT": str(home.port(service))}
    module = service.replace("-", "_")
    if service == "core-api":
        own |= {
            "REGISTRY_DSN_FILE": str(secret("registry-dsn")),
            "MASTER_KEY_FILE": str(secret("master-key")),
        }
    else:
        own |= {
            "CORE_API_URL": home.url("core-api"),
            "CLIENT_ID": _secret(home, f"{module}.client-id"),
            "CLIENT_SECRET_FILE": str(secret(f"{module}.client-secret")),
            "BASE_URL": home.url(service),
        }
    if service in {"dms-ingest", "dms-worker"}:
        own["BUS_DSN_FILE"] = str(secret("bus-dsn"))
        defaults["STORAGE_DIR"] = str(home.folder / "objects")
    if service == "dms-ingest":
        own["LINK_KEY_FILE"] = str(secret("link-key"))
        defaults["STAGING_DIR"] = str(home.folder / "staging")
    prefix = module.upper() + "_"
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    chosen = {name: value for name, value in os.environ.items() if name.startswith(prefix)}
    return inherited | _prefixed(prefix, defaults) | chosen | _prefixed(prefix, own)


def _prefixed(prefix: str, settings: dict[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in settings.items()}


def _secret(home: Home, name: str) -> str:
    """A secret that the bootstrap has made."""
    text = home.secrets.read(name)
    assert text is not None, name
    return text
