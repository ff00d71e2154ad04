"""A Postgres server for a test session, and databases copied from templates that are migrated once."""

import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import UUID

from nexarch import scram
from nexarch.bootstrap_db import bus_dsn, core_dsn, create_roles_and_registry
from nexarch.db import Connection, connect
from nexarch.migrate import migrate_up, read_migrations
from nexarch.postgres import PostgresServer
from nexarch.template import ensure_template
from nexarch.tenant_database import admit_role, create_database, create_role, database_dsn
from support.waiting import eventually

# A test's database need not survive a power cut.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "400"}

_REGISTRY_TEMPLATE = "registry_template"
_TENANT_ROLE = "tenant_test"
_numbers = count(1)

# Not a hash of anything: nobody logs in with it.
NO_PASSWORD = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$bm9ib2R5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running server with our two roles, an empty migrated registry and a tenant schema to copy."""

    superuser_dsn: str
    core_password: str
    bus_password: str
    tenant_password: str
    tenant_template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDatabase:
    """A tenant database of one test: `dsn` as the tenant's role (what services use), `owner_dsn` as nexarch_core."""

    dsn: str
    owner_dsn: str


def start_server(home: Path) -> PostgresServer:
    """Start a server of our own on a free port."""
    server = PostgresServer(home, free_port(), FAST)
    server.start()
    return server


def free_port() -> int:
    """A TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def prepare_cluster(superuser_dsn: str) -> Cluster:
    """Do what `nexarch bootstrap` does, and migrate one registry and one tenant schema to copy from."""
    core_password, bus_password, tenant_password = (secrets.token_urlsafe(16) for _ in range(3))
    await create_roles_and_registry(superuser_dsn, core_password, bus_password, _REGISTRY_TEMPLATE)
    dsn = core_dsn(superuser_dsn, core_password, _REGISTRY_TEMPLATE)
    async with _connected(dsn) as conn:
        await migrate_up(conn, read_migrations("registry"))
        await create_role(conn, _TENANT_ROLE, tenant_password, scram.RANDOM)
    return Cluster(
        superuser_dsn=superuser_dsn,
        core_password=core_password,
        bus_password=bus_password,
        tenant_password=tenant_password,
        tenant_template=await ensure_template(dsn),
    )


@asynccontextmanager
async def own_registry(cluster: Cluster) -> AsyncIterator[str]:
    """A migrated registry database of the caller's own; yields its name."""
    name = f"registry_test_{next(_numbers)}"
    async with _connected(cluster.superuser_dsn) as conn:
        await conn.execute(f"CREATE DATABASE {name} OWNER nexarch_core TEMPLATE {_REGISTRY_TEMPLATE}")
        await conn.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {name} FROM PUBLIC")
        await conn.execute(f"GRANT CONNECT ON DATABASE {name} TO nexarch_bus")
    try:
        yield name
    finally:
        await _drop(cluster, name)


@asynccontextmanager
async def empty_database(cluster: Cluster) -> AsyncIterator[str]:
    """A database without any schema, of nexarch_core; yields its address."""
    name = f"empty_test_{next(_numbers)}"
    async with _connected(cluster.superuser_dsn) as conn:
        await conn.execute(f"CREATE DATABASE {name} OWNER nexarch_core TEMPLATE template0")
    try:
        yield core_dsn(cluster.superuser_dsn, cluster.core_password, name)
    finally:
        await _drop(cluster, name)


@asynccontextmanager
async def own_tenant(cluster: Cluster, slug: str | None = None) -> AsyncIterator[TenantDatabase]:
    """A migrated tenant database of the caller's own, named for the slug and with a role of its own if one is given."""
    name = f"tenant_{slug or f'test_{next(_numbers)}'}"
    role = name if slug else _TENANT_ROLE
    core = core_dsn(cluster.superuser_dsn, cluster.core_password, _REGISTRY_TEMPLATE)
    owner_dsn = database_dsn(core, name)
    async with _connected(core) as conn:
        if slug:
            await create_role(conn, role, cluster.tenant_password, scram.RANDOM)
        await create_database(conn, name, template=cluster.tenant_template)
    async with _connected(owner_dsn) as conn:
        await admit_role(conn, role)
    try:
        yield TenantDatabase(
            dsn=database_dsn(core, name, user=role, password=cluster.tenant_password), owner_dsn=owner_dsn
        )
    finally:
        await _drop(cluster, name)
        if slug:
            async with _connected(core) as conn:
                await conn.execute(f"DROP ROLE {role}")


async def add_user(owner_dsn: str, email: str, role: str, password_hash: str = NO_PASSWORD) -> UUID:
    """Add a user to a tenant database; services cannot, their role may only read users."""
    sql = """
        INSERT INTO users (email, display_name, role, password_hash)
        VALUES ($1, $1, $2, $3)
        RETURNING id
    """
    async with _connected(owner_dsn) as conn:
        user: UUID = await conn.fetchval(sql, email, role, password_hash)
    return user


async def until_blocked(conn: Connection, *, by: Connection) -> None:
    """Return when `conn` waits for a lock that `by` holds."""

    async def is_blocked() -> bool:
        blocking = await by.fetchval("SELECT pg_blocking_pids($1)", conn.get_server_pid())
        return by.get_server_pid() in blocking

    await eventually(is_blocked)


def registry_core_dsn(cluster: Cluster, database: str) -> str:
    """The address of a registry database for core-api."""
    return core_dsn(cluster.superuser_dsn, cluster.core_password, database)


def registry_bus_dsn(cluster: Cluster, database: str) -> str:
    """The address of a registry database for the event bus."""
    return bus_dsn(cluster.superuser_dsn, cluster.bus_password, database)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    conn = await connect(dsn, application_name="tests")
    try:
        yield conn
    finally:
        await conn.close()


async def _drop(cluster: Cluster, database: str) -> None:
    async with _connected(cluster.superuser_dsn) as conn:
        await conn.execute(f"DROP DATABASE {database} WITH (FORCE)")
