"""Postgres as the other modules see it: a pool with our codecs, and rows as frozen dataclasses.

A statement names the columns it selects, and those names are the fields of the row it returns.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

if TYPE_CHECKING:  # both are generic for the type checker only
    Pool = asyncpg.Pool[asyncpg.Record]
    PoolConnection = PoolConnectionProxy[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnection
else:
    Pool = asyncpg.Pool
    PoolConnection = PoolConnectionProxy
    Connection = asyncpg.Connection | PoolConnectionProxy

Row = TypeVar("Row")

# What using a connection may raise when the server, the way to it or the statement is at fault.
DATABASE_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

# What the driver raises while Postgres is away, restarting or full: the same call may succeed later.
AWAY: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection that broke within a transaction, at its ROLLBACK
    ConnectionRefusedError,
    TimeoutError,
)


def is_server_down(error: Exception) -> bool:
    """Whether it says for certain that the server is going, gone or not up yet, and not only that one session broke."""
    match error:
        case asyncpg.AdminShutdownError() | asyncpg.CannotConnectNowError() | ConnectionRefusedError():
            return True
        case _:
            return is_without_address(error)


def is_without_address(error: Exception) -> bool:
    """Whether a connection could not even be tried, or at none of several addresses.

    A host has no address while its container does not run. What several addresses of it say asyncio joins into one
    OSError without a number; what disks say has one.
    """
    return isinstance(error, socket.gaierror) or (type(error) is OSError and error.errno is None)


class TypesOnceConnection(asyncpg.Connection):
    """A connection that learns what Postgres' own array types are once in this process, not once for itself.

    The driver knows `uuid` but asks what `uuid[]` is: 5 ms for each new connection, most of what its first statement
    takes. Types below the first free OID are the same in every database; ours are still asked for.
    """

    __slots__ = ()

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> tuple[Any, Any]:
        oids = tuple(sorted(typeoids))
        if oids[-1] >= _FIRST_OWN_OID:
            answer: tuple[Any, Any] = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
            return answer
        if oids not in _builtin_types:
            _builtin_types[oids], _statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
        return _builtin_types[oids], _NOTHING_ASKED


_FIRST_OWN_OID = 16384  # FirstNormalObjectId in Postgres' access/transam.h
_NOTHING_ASKED = SimpleNamespace(name="nothing was asked, so the statement in preparation is still there")
_builtin_types: dict[tuple[int, ...], Any] = {}


class RowMissing(LookupError):
    """`fetch_one` found no row where the caller was sure of one."""


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    max_size: int,
    min_size: int = 0,
    application_name: str,
    idle_s: float = 60.0,
    command_timeout_s: float = 30.0,
) -> AsyncIterator[Pool]:
    """Open a pool: no connection until one is asked for, none again after `idle_s` seconds idle.

    Raises the driver's errors on `acquire`, not here, so a service starts while Postgres is away and says so
    in /readyz.
    """
    pool = create_pool(
        dsn,
        max_size=max_size,
        min_size=min_size,
        application_name=application_name,
        idle_s=idle_s,
        command_timeout_s=command_timeout_s,
    )
    async with pool:
        yield pool


def create_pool(
    dsn: str,
    *,
    max_size: int,
    min_size: int = 0,
    application_name: str,
    idle_s: float = 60.0,
    command_timeout_s: float = 30.0,
    longest_transaction_s: float = 300.0,
) -> Pool:
    """Make a pool that the caller opens and closes itself; see `open_pool`.

    For `longest_transaction_s` see `session_settings`.
    """
    return asyncpg.create_pool(
        dsn,
        min_size=min_size,
        max_size=max_size,
        max_inactive_connection_lifetime=idle_s,
        command_timeout=command_timeout_s,
        timeout=10.0,
        init=set_codecs,
        connection_class=TypesOnceConnection,
        server_settings=session_settings(application_name, longest_transaction_s),
    )


def session_settings(application_name: str, longest_transaction_s: float = 300.0) -> dict[str, str]:
    """How Postgres is to treat a pooled session.

    It ends one whose transaction is older than `longest_transaction_s`, or waits a fifth of that for its next
    statement: a process that froze there would keep its row locks, and the rows that it alone can still see, for as
    long as it is frozen. The second limit alone would miss one that froze between the parts of a statement.
    """
    return {
        "application_name": application_name,
        "transaction_timeout": f"{longest_transaction_s * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{longest_transaction_s * 200:.0f}",
    }


@asynccontextmanager
async def borrow(pool: Pool, timeout_s: float) -> AsyncIterator[Connection]:
    """A connection of the pool for work that takes at most `timeout_s`, the wait for the connection included.

    After a TimeoutError see `hang_up`.
    """
    conn: PoolConnectionProxy[asyncpg.Record] | None = None
    try:
        async with asyncio.timeout(timeout_s):
            conn = await pool.acquire(timeout=timeout_s)
            yield conn
    except TimeoutError:
        if conn is not None:
            await hang_up(pool, conn)
        raise
    finally:
        if conn is not None:
            await pool.release(conn)


async def hang_up(pool: Pool, conn: Connection) -> None:
    """Tear down a pooled connection whose answer did not come, and have the others of its pool replaced when needed.

    A return to the pool would wait for the answer again. And where one connection went deaf (a firewall forgot it),
    the others did too: tried one after the other, each would cost its own timeout.
    """
    conn.terminate()
    await pool.expire_connections()


async def connect(dsn: str, *, application_name: str, timeout_s: float = 10.0) -> Connection:
    """Open one connection with our codecs; the caller closes it."""
    conn = await asyncpg.connect(dsn, timeout=timeout_s, server_settings={"application_name": application_name})
    await set_codecs(conn)
    return conn


async def set_codecs(conn: Connection) -> None:
    """Read and write `jsonb` as Python values."""
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)


async def fetch_one(conn: Connection, row_type: type[Row], sql: str, *args: object) -> Row:
    """Return the one row of a statement that always has one; `RowMissing` if it had none."""
    row = await fetch_optional(conn, row_type, sql, *args)
    if row is None:
        raise RowMissing(f"{row_type.__name__}: the statement returned no row")
    return row


async def fetch_optional(conn: Connection, row_type: type[Row], sql: str, *args: object) -> Row | None:
    """Return the first row of a statement, or None."""
    record = await conn.fetchrow(sql, *args)
    return None if record is None else row_type(**dict(record))


async def fetch_all(conn: Connection, row_type: type[Row], sql: str, *args: object) -> list[Row]:
    """Return all rows of a statement."""
    return [row_type(**dict(record)) for record in await conn.fetch(sql, *args)]
