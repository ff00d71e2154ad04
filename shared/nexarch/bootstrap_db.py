"""The first step on a new server, by its superuser: two roles and the registry database.

Everything after this runs as `nexarch_core`, which owns the registry and makes tenant databases. The
services' event bus runs as `nexarch_bus`: it may enter the registry database, LISTEN and NOTIFY, and read no table.
"""

from contextlib import suppress

import asyncpg

from nexarch.db import Connection, connect
from nexarch.tenant_database import create_role, database_dsn, identifier

CORE_ROLE = "nexarch_core"
BUS_ROLE = "nexarch_bus"
REGISTRY_DATABASE = "nexarch_registry"


async def create_roles_and_registry(
    superuser_dsn: str, core_password: str, bus_password: str, database: str = REGISTRY_DATABASE
) -> None:
    """Make both roles with these passwords and the registry database; done again, it changes nothing else."""
    conn = await connect(superuser_dsn, application_name="nexarch-bootstrap")
    try:
        await create_role(conn, CORE_ROLE, core_password)
        await conn.execute(f"ALTER ROLE {CORE_ROLE} CREATEDB CREATEROLE NOSUPERUSER")
        # To see how old the transactions of other roles are: one forgotten slows down a queue.
        await conn.execute(f"GRANT pg_read_all_stats TO {CORE_ROLE}")
        await create_role(conn, BUS_ROLE, bus_password)
        await conn.execute(f"ALTER ROLE {BUS_ROLE} NOCREATEDB NOCREATEROLE NOSUPERUSER")
        await _create_registry(conn, database)
    finally:
        await conn.close()


def core_dsn(superuser_dsn: str, core_password: str, database: str = REGISTRY_DATABASE) -> str:
    """The registry's address for core-api and the migrations."""
    return database_dsn(superuser_dsn, database, user=CORE_ROLE, password=core_password)


def bus_dsn(superuser_dsn: str, bus_password: str, database: str = REGISTRY_DATABASE) -> str:
    """The registry's address for LISTEN and NOTIFY."""
    return database_dsn(superuser_dsn, database, user=BUS_ROLE, password=bus_password)


async def _create_registry(conn: Connection, database: str) -> None:
    # Of two creators at once the loser meets the unique index of pg_database.
    with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        await conn.execute(f"CREATE DATABASE {identifier(database)} OWNER {CORE_ROLE} TEMPLATE template0")
    await conn.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {identifier(database)} FROM PUBLIC")
    await conn.execute(f"GRANT CONNECT ON DATABASE {identifier(database)} TO {CORE_ROLE}, {BUS_ROLE}")
