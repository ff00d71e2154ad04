"""Making a tenant's database and role, in steps that may be done again.

The role logs in to its own database only and owns nothing: tables belong to nexarch_core, and
`grant_tenant_role` in the tenant schema says what the role may do with them.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from nexarch import scram
from nexarch.db import Connection

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def database_dsn(dsn: str, database: str, *, user: str | None = None, password: str | None = None) -> str:
    """The address of another database on the same server, for the same user or another one."""
    parts = urlsplit(dsn)
    netloc = parts.netloc
    if user is not None:
        where = netloc.rpartition("@")[2]
        netloc = f"{quote(user, safe='')}:{quote(password or '', safe='')}@{where}"
    return urlunsplit(parts._replace(netloc=netloc, path=f"/{quote(database, safe='')}"))


def identifier(name: str) -> str:
    """Quote the name of a database or role of ours; ValueError for any other form of name.

    DDL takes no parameters, so these names are written into statements.
    """
    if _IDENTIFIER.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a name of a database or role of ours")
    return f'"{name}"'


async def create_role(conn: Connection, role: str, password: str, iterations: int = scram.CHOSEN) -> None:
    """Make a login role, or give the one that exists this password."""
    # The verifier holds no quote, and only it gets into the server's log where statements are logged.
    options = f"{identifier(role)} LOGIN PASSWORD '{scram.scram_verifier(password, iterations)}'"
    try:
        await conn.execute(f"CREATE ROLE {options}")
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        await conn.execute(f"ALTER ROLE {options}")


async def create_database(conn: Connection, database: str, *, template: str) -> None:
    """Copy the template into a database that nobody but its owner may enter; fine if it exists.

    The statements cannot run in one transaction, so the database takes no connection before the REVOKE is done:
    a crash between them opens it to nobody, and doing the step again finishes it.
    """
    async with _alone_at(conn, database):
        with suppress(asyncpg.DuplicateDatabaseError):
            await conn.execute(
                f"CREATE DATABASE {identifier(database)} TEMPLATE {identifier(template)} ALLOW_CONNECTIONS false"
            )
        await conn.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {identifier(database)} FROM PUBLIC")
        await conn.execute(f"ALTER DATABASE {identifier(database)} ALLOW_CONNECTIONS true")


@asynccontextmanager
async def _alone_at(conn: Connection, database: str) -> AsyncIterator[None]:
    """Of several makers of one database let in one at a time, if all are connected to the same other database.

    Postgres does not queue those who change one row of its catalogue: the second fails with "tuple concurrently
    updated".
    """
    await conn.execute("SELECT pg_advisory_lock(hashtextextended('nexarch database ' || $1, 0))", database)
    try:
        yield
    finally:
        # A connection that broke has let go by itself.
        if not conn.is_closed():
            await conn.execute("SELECT pg_advisory_unlock(hashtextextended('nexarch database ' || $1, 0))", database)


async def admit_role(tenant_conn: Connection, role: str) -> None:
    """Let the tenant's role into the database of this connection, with its rights on today's tables."""
    database = await tenant_conn.fetchval("SELECT current_database()")
    await tenant_conn.execute(f"GRANT CONNECT ON DATABASE {identifier(database)} TO {identifier(role)}")
    await tenant_conn.execute("SELECT public.grant_tenant_role($1)", role)
