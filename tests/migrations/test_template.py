"""The template of tenant databases, and what the roles may do in what is made from it."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from nexarch.bootstrap_db import core_dsn, create_roles_and_registry
from nexarch.db import Connection, connect
from nexarch.migrate import default_migrations_dir, migrate_up, read_migrations
from nexarch.template import ensure_template
from nexarch.tenant_database import admit_role, create_database, create_role, database_dsn, identifier
from support.database import Cluster, TenantDatabase

pytestmark = pytest.mark.database


@pytest.fixture
async def superuser(cluster: Cluster) -> AsyncIterator[Connection]:
    conn = await connect(cluster.superuser_dsn, application_name="tests")
    yield conn
    await conn.close()


@pytest.fixture
async def migrations_dir(tmp_path: Path, superuser: Connection) -> AsyncIterator[Path]:
    """The migrations and one more, so that their template is not there yet; it is dropped after the test."""
    shutil.copytree(default_migrations_dir(), tmp_path / "migrations")
    newest = len(read_migrations("tenant")) + 1
    for direction, sql in [("up", "CREATE TABLE pears ()"), ("down", "DROP TABLE pears")]:
        (tmp_path / "migrations" / "tenant" / f"{newest:04}_pears.{direction}.sql").write_text(sql)
    before = await databases(superuser)
    yield tmp_path / "migrations"
    for name in await databases(superuser) - before:
        await superuser.execute(f"ALTER DATABASE {name} IS_TEMPLATE false")
        await superuser.execute(f"DROP DATABASE {name}")


async def databases(conn: Connection) -> set[str]:
    rows = await conn.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'nexarch_template%'")
    return {row["datname"] for row in rows}


async def test_a_new_schema_makes_a_template_beside_the_old_one(
    cluster: Cluster, registry_dsn: str, migrations_dir: Path, superuser: Connection
) -> None:
    name = await ensure_template(registry_dsn, migrations_dir)

    assert await databases(superuser) == {cluster.tenant_template, name}
    flags = "SELECT datistemplate, datallowconn FROM pg_database WHERE datname = $1"
    assert tuple(await superuser.fetchrow(flags, name) or ()) == (True, False)


async def test_the_template_of_a_known_schema_is_used_again(cluster: Cluster, registry_dsn: str) -> None:
    assert await ensure_template(registry_dsn) == cluster.tenant_template


async def test_makers_at_once_make_one_template(registry_dsn: str, migrations_dir: Path, superuser: Connection) -> None:
    before = await databases(superuser)

    names = await asyncio.gather(*(ensure_template(registry_dsn, migrations_dir) for _ in range(4)))

    assert await databases(superuser) - before == set(names)
    assert len(set(names)) == 1


async def test_a_maker_that_died_on_the_way_is_no_obstacle(
    registry_dsn: str, migrations_dir: Path, superuser: Connection
) -> None:
    name = await ensure_template(registry_dsn, migrations_dir)
    await superuser.execute(f"ALTER DATABASE {name} RENAME TO {name}_building")

    again = await ensure_template(registry_dsn, migrations_dir)

    assert again == name
    assert f"{name}_building" not in await databases(superuser)


async def test_copies_can_be_made_at_once_and_again(cluster: Cluster, superuser: Connection) -> None:
    names = ["tenant_copy_a", "tenant_copy_b", *["tenant_copy_c"] * 6]
    async with AsyncExitStack() as closing:
        conns = [await connect(cluster.superuser_dsn, application_name="tests") for _ in names]
        for conn in conns:
            closing.push_async_callback(conn.close)

        await asyncio.gather(
            *(
                create_database(conn, name, template=cluster.tenant_template)
                for conn, name in zip(conns, names, strict=True)
            )
        )
    await create_database(superuser, "tenant_copy_a", template=cluster.tenant_template)

    for name in sorted(set(names)):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
            await connect(
                database_dsn(cluster.superuser_dsn, name, user="nexarch_bus", password=cluster.bus_password),
                application_name="tests",
            )
        await superuser.execute(f"DROP DATABASE {name}")


class Dying:
    """A connection whose owner dies after so many statements."""

    def __init__(self, conn: Connection, statements: int) -> None:
        self._conn = conn
        self._left = statements

    async def execute(self, sql: str, *args: object) -> None:
        if self._left == 0:
            raise ConnectionAbortedError
        self._left -= 1
        await self._conn.execute(sql, *args)

    def is_closed(self) -> bool:
        return self._left == 0


@pytest.mark.parametrize("statements", [2, 3])
async def test_a_database_whose_maker_died_lets_nobody_in(
    cluster: Cluster, superuser: Connection, statements: int
) -> None:
    name = f"tenant_dying_{statements}"
    try:
        dying = cast("Connection", Dying(superuser, statements))
        with pytest.raises(ConnectionAbortedError):
            await create_database(dying, name, template=cluster.tenant_template)

        sql = """
            SELECT datallowconn AND has_database_privilege('public', datname, 'CONNECT')
            FROM pg_database WHERE datname = $1
        """
        assert await superuser.fetchval(sql, name) is False
        await create_database(superuser, name, template=cluster.tenant_template)
        allowed = "SELECT datallowconn FROM pg_database WHERE datname = $1"
        assert await superuser.fetchval(allowed, name) is True
    finally:
        await superuser.execute(f"DROP DATABASE IF EXISTS {name}")


async def test_a_role_made_again_has_the_new_password(cluster: Cluster, superuser: Connection) -> None:
    password = "quote ' and \\ and % and ü"
    await create_role(superuser, "tenant_again", "first")
    await create_role(superuser, "tenant_again", password)

    dsn = database_dsn(cluster.superuser_dsn, "postgres", user="tenant_again", password=password)
    conn = await connect(dsn, application_name="tests")

    assert await conn.fetchval("SELECT current_user") == "tenant_again"
    await conn.close()
    await superuser.execute("DROP ROLE tenant_again")


async def test_a_password_is_in_no_statement(superuser: Connection) -> None:
    sent: asyncio.Queue[str] = asyncio.Queue()
    superuser.add_query_logger(lambda record: sent.put_nowait(f"{record.query} {record.args}"))

    await create_role(superuser, "tenant_quiet", "swordfish")

    async with asyncio.timeout(5):
        statement = await sent.get()
    assert statement.startswith('CREATE ROLE "tenant_quiet" LOGIN PASSWORD')
    assert "swordfish" not in statement
    assert sent.empty()
    await superuser.execute("DROP ROLE tenant_quiet")


@pytest.mark.parametrize("name", ["", "a-b", 'a"b', "A", "a" * 64, "1a", "a b"])
def test_other_forms_of_names_never_get_into_a_statement(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        identifier(name)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT password_hash FROM users",
        "SELECT * FROM users",
        "INSERT INTO users (email, display_name, role, password_hash) VALUES ('a@b', 'A', 'admin', '$argon2id$')",
        "UPDATE users SET role = 'admin'",
        "DELETE FROM users",
        "DELETE FROM schema_migrations",
        "INSERT INTO schema_migrations (version, name, checksum) VALUES (99, 'x', 'x')",
        "CREATE TABLE mine ()",
        "DROP TABLE documents",
        "ALTER TABLE documents ADD mine int",
        "TRUNCATE documents",
        "CREATE TEMPORARY TABLE mine ()",
        "SELECT grant_tenant_role('tenant_test')",
        "CREATE ROLE mine",
        "SET ROLE nexarch_core",
    ],
)
async def test_the_tenants_role_may_not(tenant_conn: Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tenant_conn.execute(statement)


async def test_the_tenants_role_may_read_users_without_their_passwords(
    tenant_conn: Connection, tenant_user: object
) -> None:
    row = await tenant_conn.fetchrow(
        "SELECT id, email, display_name, role, created_at, disabled_at FROM users WHERE id = $1", tenant_user
    )

    assert row is not None
    assert await tenant_conn.fetchval("SELECT max(version) FROM schema_migrations") > 0


async def test_the_tenants_role_enters_no_other_database(
    cluster: Cluster, registry_dsn: str, tenant_database: TenantDatabase
) -> None:
    registry = database_dsn(registry_dsn, registry_dsn.rpartition("/")[2], user="tenant_test",
                            password=cluster.tenant_password)  # fmt: skip

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
        await connect(registry, application_name="tests")


async def test_admitting_a_role_again_is_fine(tenant_owner_dsn: str) -> None:
    conn = await connect(tenant_owner_dsn, application_name="tests")

    await admit_role(conn, "tenant_test")

    await conn.close()


@pytest.mark.parametrize("table", ["tenants", "tenant_keys", "operators", "modules", "signing_keys", "usage_totals"])
async def test_the_bus_reads_no_table(bus_dsn: str, table: str) -> None:
    conn = await connect(bus_dsn, application_name="tests")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await conn.fetch(f"SELECT * FROM {table}")

    await conn.close()


async def test_the_bus_listens_and_notifies(bus_dsn: str) -> None:
    conn = await connect(bus_dsn, application_name="tests")
    heard: asyncio.Queue[object] = asyncio.Queue()

    def hear(*call: object) -> None:
        heard.put_nowait(call[-1])

    await conn.add_listener("jobs", hear)

    await conn.execute("SELECT pg_notify('jobs', 'acme')")

    async with asyncio.timeout(5):
        assert await heard.get() == "acme"
    await conn.remove_listener("jobs", hear)
    await conn.close()


async def test_bootstrap_done_again_keeps_the_registry(cluster: Cluster, superuser: Connection) -> None:
    arguments = (cluster.superuser_dsn, cluster.core_password, cluster.bus_password, "registry_again")
    dsn = core_dsn(cluster.superuser_dsn, cluster.core_password, "registry_again")
    await create_roles_and_registry(*arguments)
    conn = await connect(dsn, application_name="tests")
    await migrate_up(conn, read_migrations("registry"))

    await create_roles_and_registry(*arguments)

    assert await migrate_up(conn, read_migrations("registry")) == []
    await conn.close()
    await superuser.execute("DROP DATABASE registry_again")


async def test_core_is_no_superuser_and_bus_makes_nothing(superuser: Connection) -> None:
    sql = """
        SELECT rolname, rolsuper, rolcreatedb, rolcreaterole
          FROM pg_roles
         WHERE rolname IN ('nexarch_core', 'nexarch_bus')
         ORDER BY rolname
    """

    assert [tuple(row) for row in await superuser.fetch(sql)] == [
        ("nexarch_bus", False, False, False),
        ("nexarch_core", False, True, True),
    ]
