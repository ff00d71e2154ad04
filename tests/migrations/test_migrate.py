"""The migration runner on real databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nexarch.db import Connection, connect
from nexarch.migrate import (
    Kind,
    MigrationRefused,
    migrate_down,
    migrate_up,
    migration_status,
    read_migrations,
)
from support.database import Cluster, empty_database

pytestmark = pytest.mark.database

BOTH_KINDS = pytest.mark.parametrize("kind", ["registry", "tenant"])


@pytest.fixture
async def empty_dsn(cluster: Cluster) -> AsyncIterator[str]:
    async with empty_database(cluster) as dsn:
        yield dsn


@pytest.fixture
async def conn(empty_dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(empty_dsn, application_name="tests")
    yield connection
    await connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three small migrations of a registry."""
    (tmp_path / "registry").mkdir()
    for number, name in enumerate(["apples", "pears", "plums"], start=1):
        write_pair(tmp_path, f"{number:04}_{name}", f"CREATE TABLE {name} (id int)", f"DROP TABLE {name}")
    return tmp_path


def write_pair(folder: Path, name: str, up: str, down: str) -> None:
    (folder / "registry" / f"{name}.up.sql").write_text(up)
    (folder / "registry" / f"{name}.down.sql").write_text(down)


async def objects(conn: Connection) -> set[str]:
    """Everything a migration may leave in a database: tables, indexes, functions, types and so on."""
    sql = """
        SELECT 'relation ' || relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
         UNION ALL
        SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL
        SELECT 'type ' || typname FROM pg_type WHERE typnamespace = 'public'::regnamespace
         UNION ALL
        SELECT 'search ' || cfgname FROM pg_ts_config WHERE cfgnamespace = 'public'::regnamespace
         UNION ALL
        SELECT 'extension ' || extname FROM pg_extension
         UNION ALL
        SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_'
    """
    return {row[0] for row in await conn.fetch(sql)}


@BOTH_KINDS
async def test_a_second_run_applies_nothing(conn: Connection, kind: Kind) -> None:
    migrations = read_migrations(kind)

    first = await migrate_up(conn, migrations)
    second = await migrate_up(conn, migrations)

    assert first == [migration.version for migration in migrations]
    assert second == []


@BOTH_KINDS
async def test_down_to_nothing_leaves_nothing_and_up_again_leaves_the_same(conn: Connection, kind: Kind) -> None:
    migrations = read_migrations(kind)
    await migrate_up(conn, [])
    before = await objects(conn)
    await migrate_up(conn, migrations)
    after_up = await objects(conn)

    await migrate_down(conn, migrations, to=0)
    after_down = await objects(conn)
    await migrate_up(conn, migrations)

    assert after_down == before
    assert await objects(conn) == after_up != before


@BOTH_KINDS
async def test_each_single_step_can_be_undone_and_done_again(conn: Connection, kind: Kind) -> None:
    migrations = read_migrations(kind)
    for length in range(1, len(migrations) + 1):
        await migrate_up(conn, migrations[:length])
        with_it = await objects(conn)

        await migrate_down(conn, migrations[:length], to=length - 1)
        await migrate_up(conn, migrations[:length])

        assert await objects(conn) == with_it


async def test_jobs_of_every_kind_outlive_the_way_down_and_up_again(conn: Connection) -> None:
    migrations = read_migrations("tenant")
    await migrate_up(conn, migrations)
    await conn.execute("""
        INSERT INTO processing_jobs (job_type, payload, idempotency_key, queued_key, status, priority, attempts,
            max_attempts, available_at, locked_at, locked_by, lease, last_error, progress, traceparent, finished_at)
        SELECT 'task', '{"odd": "\u00e4"}', key, queued, status, 32767, 2147483647, 2147483647, available_at,
            CASE status WHEN 'processing' THEN now() END, CASE status WHEN 'processing' THEN 'w1' END, 7,
            '{"code": "it-failed"}', 100, repeat('t', 255), CASE WHEN status NOT LIKE 'p%' THEN now() END
        FROM unnest(ARRAY['pending', 'processing', 'succeeded', 'failed', 'dead_letter']) AS status
        CROSS JOIN (VALUES (NULL, NULL, now()), (repeat('k', 252), NULL, '-infinity'), (NULL, 'waits', 'infinity'))
            AS form (prefix, queued, available_at)
        CROSS JOIN LATERAL (SELECT prefix || left(status, 3) AS key) AS keys
    """)
    sql = "SELECT * FROM processing_jobs ORDER BY id"
    before = [dict(row) for row in await conn.fetch(sql)]

    # Further down the queue had no such rows.
    (first,) = [each.version for each in migrations if each.name == "job_forms"]
    await migrate_down(conn, migrations, to=first)
    below = [dict(row) for row in await conn.fetch(sql)]
    await migrate_up(conn, migrations)

    assert len(before) == 15
    assert below == before
    assert [dict(row) for row in await conn.fetch(sql)] == before


async def test_down_stops_at_the_version_asked_for(conn: Connection, folder: Path) -> None:
    migrations = read_migrations("registry", folder)
    await migrate_up(conn, migrations)

    undone = await migrate_down(conn, migrations, to=1)

    assert undone == [3, 2]
    status = await migration_status(conn, migrations)
    assert [(each.version, each.applied_at is not None) for each in status] == [
        (1, True),
        (2, False),
        (3, False),
    ]


async def test_status_of_a_database_never_migrated_shows_all_pending(conn: Connection, folder: Path) -> None:
    status = await migration_status(conn, read_migrations("registry", folder))

    assert [each.applied_at for each in status] == [None, None, None]
    assert "relation schema_migrations" not in await objects(conn)


async def test_a_file_changed_after_it_was_applied_is_refused(conn: Connection, folder: Path) -> None:
    await migrate_up(conn, read_migrations("registry", folder)[:2])
    write_pair(folder, "0001_apples", "CREATE TABLE apples (id bigint)", "DROP TABLE apples")

    with pytest.raises(MigrationRefused, match=r"0001_apples\.up\.sql changed"):
        await migrate_up(conn, read_migrations("registry", folder))

    assert "relation plums" not in await objects(conn)


async def test_a_database_of_a_newer_release_is_refused(conn: Connection, folder: Path) -> None:
    migrations = read_migrations("registry", folder)
    await migrate_up(conn, migrations)

    with pytest.raises(MigrationRefused, match="0003_plums, which this release does not know"):
        await migrate_up(conn, migrations[:2])


def test_a_missing_number_is_refused(folder: Path) -> None:
    for half in folder.glob("registry/0002_*"):
        half.unlink()

    with pytest.raises(MigrationRefused, match="expected number 0002, found 0003_plums"):
        read_migrations("registry", folder)


def test_two_files_of_one_number_are_refused(folder: Path) -> None:
    write_pair(folder, "0002_quinces", "SELECT 1", "SELECT 1")

    with pytest.raises(MigrationRefused, match="expected number 0003, found 0002_quinces"):
        read_migrations("registry", folder)


def test_half_a_pair_is_refused(folder: Path) -> None:
    (folder / "registry" / "0003_plums.down.sql").unlink()

    with pytest.raises(MigrationRefused, match=r"0003_plums needs both"):
        read_migrations("registry", folder)


def test_a_stray_sql_file_is_refused(folder: Path) -> None:
    (folder / "registry" / "4_figs.sql").touch()

    with pytest.raises(MigrationRefused, match=r"4_figs\.sql is not named"):
        read_migrations("registry", folder)


def test_a_missing_folder_is_refused_with_the_variable_that_sets_it(tmp_path: Path) -> None:
    with pytest.raises(MigrationRefused, match="NEXARCH_MIGRATIONS_DIR"):
        read_migrations("tenant", tmp_path)


def test_the_variable_says_where_the_migrations_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXARCH_MIGRATIONS_DIR", str(folder))

    assert [each.name for each in read_migrations("registry")] == ["apples", "pears", "plums"]


async def test_a_failing_file_leaves_no_trace_and_the_earlier_ones_applied(conn: Connection, folder: Path) -> None:
    write_pair(folder, "0002_pears", "CREATE TABLE pears (id int); SELECT 1 / 0;", "DROP TABLE pears")
    migrations = read_migrations("registry", folder)

    with pytest.raises(Exception, match="division by zero"):
        await migrate_up(conn, migrations)

    found = await objects(conn)
    assert "relation apples" in found
    assert "relation pears" not in found
    assert [each.applied_at is not None for each in await migration_status(conn, migrations)] == [
        True,
        False,
        False,
    ]


@BOTH_KINDS
async def test_of_two_runners_at_once_one_applies_everything(empty_dsn: str, kind: Kind) -> None:
    migrations = read_migrations(kind)
    runners = [await connect(empty_dsn, application_name="tests") for _ in range(2)]

    applied = await asyncio.gather(*(migrate_up(runner, migrations) for runner in runners))

    assert sorted(applied, key=len) == [[], [migration.version for migration in migrations]]
    for runner in runners:
        await runner.close()


async def test_a_table_in_use_stops_a_migration_after_the_lock_timeout(
    empty_dsn: str, conn: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexarch.migrate._LOCK_TIMEOUT_S", 0.2)
    await migrate_up(conn, read_migrations("registry", folder))
    write_pair(folder, "0004_more_apples", "ALTER TABLE apples ADD colour text", "SELECT 1")
    reader = await connect(empty_dsn, application_name="tests")
    async with reader.transaction():
        await reader.fetch("SELECT * FROM apples")

        with pytest.raises(Exception, match="lock timeout"):
            await migrate_up(conn, read_migrations("registry", folder))

    assert await migrate_up(conn, read_migrations("registry", folder)) == [4]
    await reader.close()
