"""What every case stands on: a PostgreSQL on disk and with fsync, roles, a registry and tenant databases."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from nexarch.db import Connection, connect
from nexarch.postgres import PostgresServer
from nexarch.tenant_database import admit_role, create_database, database_dsn, identifier
from support import database
from support.database import Cluster

# As `nexarch up` runs it, but with room for what the cases hold open themselves.
_SETTINGS = {"max_connections": "300", "shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
_REGISTRY = "registry_template"  # what `prepare_cluster` has migrated; here it is simply the registry
_TENANT_ROLE = "tenant_test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The addresses: the bus in the registry database, and tenant databases by number."""

    cluster: Cluster
    bus_dsn: str

    @property
    def core_dsn(self) -> str:
        """The registry, as the role that makes tenant databases."""
        return database.registry_core_dsn(self.cluster, _REGISTRY)

    @property
    def floor_bus_dsn(self) -> str:
        """The bus of the floor, in a database of its own: a NOTIFY wakes all who listen in its database, in turn."""
        return database_dsn(self.core_dsn, "postgres")

    def tenant_dsn(self, name: str, *, owner: bool = False) -> str:
        """The tenant's database, as the tenant's role (what services use) or as its owner."""
        if owner:
            return database_dsn(self.core_dsn, f"tenant_{name}")
        return database_dsn(self.core_dsn, f"tenant_{name}", user=_TENANT_ROLE, password=self.cluster.tenant_password)

    async def add_tenant(self, name: str) -> None:
        """Make a tenant database from the template, and let the tenant's role in."""
        async with connected(self.core_dsn) as conn:
            await create_database(conn, f"tenant_{name}", template=self.cluster.tenant_template)
        async with connected(self.tenant_dsn(name, owner=True)) as owner:
            await admit_role(owner, _TENANT_ROLE)

    async def add_tenants(self, prefix: str, number: int) -> list[str]:
        """Make so many at once, as copies of one that is made first; their names."""
        await self.add_tenant(f"{prefix}_0")
        names = [f"{prefix}_{position}" for position in range(number)]
        async with connected(self.core_dsn) as conn:
            for name in names[1:]:
                database_name = f"tenant_{name}"
                await create_database(conn, database_name, template=f"tenant_{prefix}_0")
                await conn.execute(
                    f"GRANT CONNECT ON DATABASE {identifier(database_name)} TO {identifier(_TENANT_ROLE)}"
                )
        return names


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Start the server and make the databases; stop and remove all of it at the end."""
    with tempfile.TemporaryDirectory(prefix="nexarch-bench-", ignore_cleanup_errors=True) as home:
        server = PostgresServer(Path(home), database.free_port(), _SETTINGS)
        await asyncio.to_thread(server.start)
        try:
            cluster = await database.prepare_cluster(server.dsn())
            async with connected(server.dsn()) as conn:
                await conn.execute(f"GRANT CONNECT ON DATABASE {_REGISTRY} TO nexarch_bus")
            yield Stage(cluster=cluster, bus_dsn=database.registry_bus_dsn(cluster, _REGISTRY))
        finally:
            await asyncio.to_thread(server.stop, "immediate")


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """A connection of the bench's own."""
    conn = await connect(dsn, application_name="bench")
    try:
        yield conn
    finally:
        await conn.close()
