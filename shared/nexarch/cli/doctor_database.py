"""The doctor on PostgreSQL: reachable, of version 18, migrated, with connections to spare, a clock like ours, and
no forgotten transaction."""

import time
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from nexarch.cli.databases import reaching
from nexarch.cli.failures import Failure
from nexarch.cli.findings import Finding, clock_finding
from nexarch.cli.target import Target
from nexarch.db import Connection, connect, fetch_one
from nexarch.migrate import MigrationRefused, migration_status, read_migrations
from nexarch.old_transactions import OLD_S, OpenTransaction, oldest_transaction

_OLDEST = 180000  # uuidv7()
_BUSY = 0.8
_FULL = 0.95
# A full queue of notifications makes every NOTIFY fail: somebody listens in a transaction that never ends.
_NOTIFY_QUEUE_BUSY = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """What one query says of the server; `for_clients` is max_connections less what is reserved."""

    version_num: int
    version: str
    now: datetime
    for_clients: int
    in_use: int
    notify_queue: float
    sees_others: bool


async def check_registry(target: Target) -> list[Finding]:
    """The registry's server and schema."""
    if target.registry_dsn is None:
        mend = "Set NEXARCH_REGISTRY_DSN or give --endpoints, and it is looked at too."
        return [Finding(check="registry", status="skipped", detail="its address is not known", mend=mend)]
    try:
        with reaching("PostgreSQL"):
            conn = await connect(target.registry_dsn, application_name="nexarch-doctor")
    except Failure as failure:
        return [Finding(check="registry", status="fail", detail=failure.message, mend=failure.hint)]
    try:
        asked = time.time()
        server = await _ask(conn)
        took = time.time() - asked
        return [
            Finding(check="registry", status="ok", detail="answers"),
            _version(server),
            clock_finding("PostgreSQL clock", server.now.timestamp() - asked - took / 2, took / 2),
            _connections(server),
            _notifications(server),
            oldest_finding(await oldest_transaction(conn), sees_others=server.sees_others),
            await _registry_schema(conn),
            await _tenant_schemas(conn),
        ]
    except asyncpg.PostgresError as error:
        return [Finding(check="registry", status="fail", detail=str(error), mend="See the log of PostgreSQL.")]
    finally:
        await conn.close()


async def _ask(conn: Connection) -> _Server:
    sql = """
        SELECT current_setting('server_version_num')::int AS version_num,
               current_setting('server_version') AS version,
               clock_timestamp() AS now,
               current_setting('max_connections')::int
                   - current_setting('superuser_reserved_connections')::int
                   - current_setting('reserved_connections')::int AS for_clients,
               (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS in_use,
               pg_notification_queue_usage() AS notify_queue,
               pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others
    """
    return await fetch_one(conn, _Server, sql)


def _version(server: _Server) -> Finding:
    if server.version_num >= _OLDEST:
        return Finding(check="PostgreSQL version", status="ok", detail=server.version)
    return Finding(
        check="PostgreSQL version", status="fail", detail=server.version, mend="Upgrade to PostgreSQL 18 or newer."
    )


def _connections(server: _Server) -> Finding:
    share = server.in_use / server.for_clients
    return Finding(
        check="connections",
        status="fail" if share > _FULL else "warn" if share > _BUSY else "ok",
        detail=f"{server.in_use} of {server.for_clients} in use",
        mend="Raise max_connections, or lower the pool sizes of the services." if share > _BUSY else "",
    )


def _notifications(server: _Server) -> Finding:
    busy = server.notify_queue > _NOTIFY_QUEUE_BUSY
    return Finding(
        check="notification queue",
        status="warn" if busy else "ok",
        detail=f"{server.notify_queue:.0%} full",
        mend="End the session in pg_stat_activity that listens and is idle in a transaction." if busy else "",
    )


def oldest_finding(oldest: OpenTransaction | None, *, sees_others: bool) -> Finding:
    """Judge the oldest open transaction of the server."""
    check = "oldest transaction"
    if not sees_others:
        mend = "Run `nexarch bootstrap` again: it lets nexarch_core see them."
        return Finding(check=check, status="skipped", detail="the sessions of other roles are hidden", mend=mend)
    if oldest is None or oldest.age_s < OLD_S:
        return Finding(check=check, status="ok", detail="none is open" if oldest is None else f"{oldest.age_s:.0f} s")
    session = f"session {oldest.pid} ({oldest.application or 'no name'}, {oldest.database or 'no database'})"
    return Finding(
        check=check,
        status="warn",
        detail=f"{oldest.age_s:.0f} s, {oldest.state}, of {session}: it slows down the queue of its database",
        mend=f"If nobody needs it: SELECT pg_terminate_backend({oldest.pid}).",
    )


async def _registry_schema(conn: Connection) -> Finding:
    check = "registry schema"
    try:
        migrations = await migration_status(conn, read_migrations("registry"))
    except MigrationRefused as error:
        return Finding(check=check, status="fail", detail=str(error), mend="Bring code and database to one release.")
    pending = [m for m in migrations if m.applied_at is None]
    if pending:
        detail = f"{len(pending)} of {len(migrations)} migrations are pending"
        return Finding(check=check, status="fail", detail=detail, mend="Run `nexarch migrate up`.")
    return Finding(check=check, status="ok", detail=f"version {len(migrations):04}")


async def _tenant_schemas(conn: Connection) -> Finding:
    check = "tenant schemas"
    newest = len(read_migrations("tenant"))
    sql = """
        SELECT slug FROM tenants
         WHERE schema_version <> $1 AND provision_step NOT IN ('requested', 'role_created')
         ORDER BY slug
    """
    try:
        slugs = [row["slug"] for row in await conn.fetch(sql, newest)]
    except asyncpg.UndefinedTableError:
        return Finding(check=check, status="skipped", detail="the registry has no table of tenants yet")
    if slugs:
        some = ", ".join(slugs[:5]) + (" and others" if len(slugs) > 5 else "")
        detail = f"{len(slugs)} tenants are not at version {newest:04}: {some}"
        return Finding(check=check, status="fail", detail=detail, mend="Run `nexarch migrate up`.")
    return Finding(check=check, status="ok", detail=f"all at version {newest:04}")
