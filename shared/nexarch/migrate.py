"""Migrations: numbered pairs of SQL files, for the registry database and for every tenant database.

`migrations/<kind>/NNNN_name.up.sql` and `.down.sql`, one transaction per file. `schema_migrations` in each
database remembers what was applied, with the checksum of the up file: a file that changed afterwards is
refused, because no two databases would be the same any more. Two runners at once take turns.
"""

import hashlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import asyncpg

from nexarch.db import Connection, fetch_all

Kind = Literal["registry", "tenant"]

_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.(?P<direction>up|down)\.sql")
# Advisory locks are per database, so this one number serves all of them.
_LOCK = 0x6E65786D  # "nexm"
_LOCK_TIMEOUT_S = 5
# Of a whole runner, which may wait for another one to finish its work.
_TURN_TIMEOUT_S = 120


class MigrationRefused(Exception):
    """The files and the database do not fit together, and nothing was changed; the text says what to do.

    For the commands of an operator, never an HTTP answer: so it stands outside the tree of `nexarch.errors`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One pair of files."""

    version: int
    name: str
    up_sql: str
    down_sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the up file, in hex."""
        return hashlib.sha256(self.up_sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedMigration:
    """One row of `schema_migrations`."""

    version: int
    name: str
    checksum: str
    applied_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStatus:
    """One migration as `nexarch migrate status` shows it; `applied_at` is None while it is pending."""

    version: int
    name: str
    applied_at: datetime | None


def default_migrations_dir() -> Path:
    """The folder of the migrations: NEXARCH_MIGRATIONS_DIR, or `migrations/` of this repository."""
    from_environment = os.environ.get("NEXARCH_MIGRATIONS_DIR")
    if from_environment:
        return Path(from_environment)
    return Path(__file__).resolve().parents[2] / "migrations"


def read_migrations(kind: Kind, migrations_dir: Path | None = None) -> list[Migration]:
    """Read the pairs of one kind, in order.

    Raises MigrationRefused where the folder is missing, a number is missing or given twice, a pair lacks a
    half, or a name is not of the form `NNNN_name.up.sql`.
    """
    folder = (migrations_dir or default_migrations_dir()) / kind
    if not folder.is_dir():
        raise MigrationRefused(f"There is no folder {folder}; set NEXARCH_MIGRATIONS_DIR.")
    halves: dict[tuple[int, str], dict[str, str]] = {}
    for path in sorted(folder.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise MigrationRefused(f"{path} is not named NNNN_name.up.sql or NNNN_name.down.sql.")
        pair = halves.setdefault((int(match["version"]), match["name"]), {})
        pair[match["direction"]] = path.read_text(encoding="utf-8")
    migrations = []
    for expected, ((version, name), pair) in enumerate(sorted(halves.items()), start=1):
        if version != expected:
            raise MigrationRefused(f"{folder}: expected number {expected:04}, found {version:04}_{name}.")
        if len(pair) != 2:
            raise MigrationRefused(f"{folder}/{version:04}_{name} needs both .up.sql and .down.sql.")
        migrations.append(Migration(version=version, name=name, up_sql=pair["up"], down_sql=pair["down"]))
    return migrations


def schema_checksum(migrations: Sequence[Migration]) -> str:
    """SHA-256 in hex over all up files: two databases with the same checksum have the same schema."""
    digest = hashlib.sha256()
    for migration in migrations:
        digest.update(f"{migration.version:04}_{migration.name} {migration.checksum}\n".encode())
    return digest.hexdigest()


async def migrate_up(conn: Connection, migrations: Sequence[Migration]) -> list[int]:
    """Apply what is pending, each file in a transaction of its own; return the versions applied now.

    Raises MigrationRefused before any change; a driver's error leaves the earlier files applied and the
    failed one without a trace. A table that stays locked by others for 5 s is such an error: DDL that waits
    would make every reader behind it wait too.
    """
    async with _turn(conn):
        applied = await _applied(conn)
        _refuse_misfit(applied, migrations)
        pending = migrations[len(applied) :]
        for migration in pending:
            async with conn.transaction():
                await conn.execute(migration.up_sql)
                await _record(conn, migration)
        return [migration.version for migration in pending]


async def migrate_down(conn: Connection, migrations: Sequence[Migration], *, to: int) -> list[int]:
    """Undo every version above `to` (0: all), newest first; return the versions undone."""
    async with _turn(conn):
        applied = await _applied(conn)
        _refuse_misfit(applied, migrations)
        undone = [migration for migration in migrations[: len(applied)] if migration.version > to]
        undone.reverse()
        for migration in undone:
            async with conn.transaction():
                await conn.execute(migration.down_sql)
                await _forget(conn, migration)
        return [migration.version for migration in undone]


async def migration_status(conn: Connection, migrations: Sequence[Migration]) -> list[MigrationStatus]:
    """Say of each migration when it was applied; changes nothing. Raises MigrationRefused on a misfit."""
    applied = await _applied(conn)
    _refuse_misfit(applied, migrations)
    times = {row.version: row.applied_at for row in applied}
    return [
        MigrationStatus(version=each.version, name=each.name, applied_at=times.get(each.version)) for each in migrations
    ]


@asynccontextmanager
async def _turn(conn: Connection) -> AsyncIterator[None]:
    """Hold the runners' lock of this database, with `schema_migrations` in place and DDL that gives up soon."""
    await conn.execute(f"SET lock_timeout = '{_TURN_TIMEOUT_S}s'")
    await conn.execute("SELECT pg_advisory_lock($1)", _LOCK)
    try:
        await conn.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT_S}s'")
        await conn.execute(
            """
            CREATE TABLE IF NOT EXISTS public.schema_migrations (
                version    integer PRIMARY KEY,
                name       text NOT NULL,
                checksum   text NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT now()
            )
            """
        )
        yield
    finally:
        if not conn.is_closed():  # closed: the server has dropped the lock already
            await conn.execute("SELECT pg_advisory_unlock($1)", _LOCK)
            await conn.execute("RESET lock_timeout")


async def _applied(conn: Connection) -> list[AppliedMigration]:
    sql = """
        SELECT version, name, checksum, applied_at
          FROM public.schema_migrations
         ORDER BY version
    """
    try:
        return await fetch_all(conn, AppliedMigration, sql)
    except asyncpg.UndefinedTableError:
        return []  # a database that was never migrated


def _refuse_misfit(applied: Sequence[AppliedMigration], migrations: Sequence[Migration]) -> None:
    """Applied must be a prefix of the files, each with the checksum it had then."""
    for expected, row in enumerate(applied, start=1):
        if row.version != expected:
            raise MigrationRefused(f"The database lacks {expected:04} but has {row.version:04}_{row.name}.")
        if row.version > len(migrations):
            raise MigrationRefused(
                f"The database has {row.version:04}_{row.name}, which this release does not know: "
                "it was migrated by a newer one. Run that release, or its `nexarch migrate down`."
            )
        migration = migrations[row.version - 1]
        if row.checksum != migration.checksum:
            raise MigrationRefused(
                f"{migration.version:04}_{migration.name}.up.sql changed after it was applied on "
                f"{row.applied_at:%Y-%m-%d}. Restore the file and put the change into a new migration."
            )


async def _record(conn: Connection, migration: Migration) -> None:
    sql = "INSERT INTO public.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)"
    await conn.execute(sql, migration.version, migration.name, migration.checksum)


async def _forget(conn: Connection, migration: Migration) -> None:
    await conn.execute("DELETE FROM public.schema_migrations WHERE version = $1", migration.version)
