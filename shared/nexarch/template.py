"""The template that tenant databases are copied from: migrated once per schema, copied in a tenth of a second."""

from pathlib import Path

from nexarch.db import Connection, connect
from nexarch.migrate import migrate_up, read_migrations, schema_checksum
from nexarch.tenant_database import database_dsn, identifier

_LOCK = 0x6E657874  # "next"


async def ensure_template(registry_dsn: str, migrations_dir: Path | None = None) -> str:
    """Return the name of the template database of today's tenant schema, making it if there is none.

    `registry_dsn` names the owner of the tenant databases. The name holds the schema's checksum, so that a
    new release makes a new template beside the old one. It is built under another name and renamed when it
    is whole; two makers at once take turns.
    """
    migrations = read_migrations("tenant", migrations_dir)
    name = f"nexarch_template_{schema_checksum(migrations)[:16]}"
    conn = await connect(registry_dsn, application_name="nexarch-template")
    try:
        if await _exists(conn, name):
            return name
        await conn.execute("SELECT pg_advisory_lock($1)", _LOCK)  # let go when the connection closes
        if await _exists(conn, name):
            return name
        building = f"{name}_building"
        await _drop_leftover(conn, building)
        await conn.execute(f"CREATE DATABASE {identifier(building)} TEMPLATE template0")
        await conn.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {identifier(building)} FROM PUBLIC")
        inside = await connect(database_dsn(registry_dsn, building), application_name="nexarch-template")
        try:
            await migrate_up(inside, migrations)
        finally:
            await inside.close()
        # Without connections allowed, no session can ever be in the way of a copy.
        await conn.execute(f"ALTER DATABASE {identifier(building)} ALLOW_CONNECTIONS false")
        await conn.execute(f"ALTER DATABASE {identifier(building)} IS_TEMPLATE true")
        await conn.execute(f"ALTER DATABASE {identifier(building)} RENAME TO {identifier(name)}")
    finally:
        await conn.close()
    return name


async def _drop_leftover(conn: Connection, database: str) -> None:
    """Remove what a maker left that died on the way."""
    if await _exists(conn, database):
        await conn.execute(f"ALTER DATABASE {identifier(database)} IS_TEMPLATE false")
        await conn.execute(f"DROP DATABASE {identifier(database)} WITH (FORCE)")


async def _exists(conn: Connection, name: str) -> bool:
    sql = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
    return bool(await conn.fetchval(sql, name))
