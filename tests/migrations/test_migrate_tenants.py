"""The walk over all tenant databases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from nexarch.db import Connection, connect
from nexarch.migrate import Migration, migrate_down, read_migrations
from nexarch.migrate_tenants import TenantMigrated, list_tenant_databases, migrate_tenants
from support import database
from support.database import Cluster

pytestmark = pytest.mark.database

SLUGS = [f"test_{letter}" for letter in "abcdef"]


@dataclass(frozen=True)
class Platform:
    """A registry with six tenants, their databases as the migrations of the release before left them."""

    registry_dsn: str
    owner_dsns: dict[str, str]


@pytest.fixture
def migrations() -> list[Migration]:
    """Those of the repository and one more."""
    there = read_migrations("tenant")
    new = Migration(
        version=len(there) + 1,
        name="pears",
        up_sql="CREATE TABLE pears (id int); CREATE FUNCTION pear() RETURNS int RETURN 1;",
        down_sql="DROP FUNCTION pear(); DROP TABLE pears;",
    )
    return [*there, new]


@pytest.fixture
async def platform(cluster: Cluster, registry_dsn: str) -> AsyncIterator[Platform]:
    async with AsyncExitStack() as stack:
        tenants = {slug: await stack.enter_async_context(database.own_tenant(cluster, slug)) for slug in SLUGS}
        registry = await connect(registry_dsn, application_name="tests")
        for slug in SLUGS:
            await add_tenant(registry, slug, "complete", "active")
        await registry.close()
        yield Platform(registry_dsn, {slug: tenant.owner_dsn for slug, tenant in tenants.items()})


async def add_tenant(registry: Connection, slug: str, step: str, status: str) -> None:
    sql = """
        INSERT INTO tenants (slug, name, provision_step, status, sealed_password)
        VALUES ($1, $1, $2, $3, 'sealed')
    """
    await registry.execute(sql, slug, step, status)


async def walk(
    platform: Platform, migrations: list[Migration], down_to: int | None = None
) -> dict[str, TenantMigrated]:
    registry = await connect(platform.registry_dsn, application_name="tests")
    tenants = await list_tenant_databases(registry)
    await registry.close()
    results = migrate_tenants(platform.registry_dsn, tenants, migrations, down_to=down_to)
    return {result.slug: result async for result in results}


async def run(dsn: str, sql: str) -> str:
    conn = await connect(dsn, application_name="tests")
    try:
        return str(await conn.fetchval(sql))
    finally:
        await conn.close()


async def test_every_tenant_gets_what_is_pending_and_its_role_the_rights_on_it(
    platform: Platform, migrations: list[Migration]
) -> None:
    newest = len(migrations)

    done = await walk(platform, migrations)

    assert {slug: (result.versions, result.error) for slug, result in done.items()} == dict.fromkeys(
        SLUGS, ([newest], None)
    )
    for slug in SLUGS:
        allowed = f"SELECT has_table_privilege('tenant_{slug}', 'pears', 'SELECT, INSERT, UPDATE, DELETE')"
        assert await run(platform.owner_dsns[slug], allowed) == "True"
    assert await run(platform.registry_dsn, "SELECT array_agg(DISTINCT schema_version) FROM tenants") == f"[{newest}]"


async def test_a_second_walk_applies_nothing(platform: Platform, migrations: list[Migration]) -> None:
    await walk(platform, migrations)

    done = await walk(platform, migrations)

    assert {slug: (result.versions, result.error) for slug, result in done.items()} == dict.fromkeys(SLUGS, ([], None))


async def test_a_failing_tenant_does_not_stop_the_others(platform: Platform, migrations: list[Migration]) -> None:
    await run(platform.owner_dsns["test_b"], "CREATE TABLE pears ()")

    done = await walk(platform, migrations)

    assert done["test_b"].error == 'relation "pears" already exists'
    assert {slug for slug, result in done.items() if result.error is None} == set(SLUGS) - {"test_b"}
    reached = "SELECT schema_version FROM tenants WHERE slug = 'test_b'"
    assert await run(platform.registry_dsn, reached) == "0"


async def test_a_tenant_whose_database_is_gone_is_told(platform: Platform, migrations: list[Migration]) -> None:
    registry = await connect(platform.registry_dsn, application_name="tests")
    await add_tenant(registry, "lost", "complete", "active")
    await registry.close()

    done = await walk(platform, migrations)

    assert done["lost"].error == 'database "tenant_lost" does not exist'
    assert len([result for result in done.values() if result.error is None]) == len(SLUGS)


async def test_tenants_without_a_database_yet_are_left_out(registry_conn: Connection) -> None:
    await add_tenant(registry_conn, "early", "role_created", "provisioning")
    await add_tenant(registry_conn, "late", "database_created", "provisioning")
    await add_tenant(registry_conn, "asleep", "complete", "suspended")

    listed = await list_tenant_databases(registry_conn)

    assert [(each.slug, each.database_name, each.role_name) for each in listed] == [
        ("asleep", "tenant_asleep", "tenant_asleep"),
        ("late", "tenant_late", "tenant_late"),
    ]


async def test_all_tenants_can_be_taken_back_a_step(platform: Platform, migrations: list[Migration]) -> None:
    await walk(platform, migrations)
    before = len(migrations) - 1

    done = await walk(platform, migrations, down_to=before)

    assert {slug: (result.versions, result.error) for slug, result in done.items()} == dict.fromkeys(
        SLUGS, ([len(migrations)], None)
    )
    assert await run(platform.registry_dsn, "SELECT array_agg(DISTINCT schema_version) FROM tenants") == f"[{before}]"


async def test_a_tenant_held_up_does_not_hold_up_the_others(platform: Platform, migrations: list[Migration]) -> None:
    holder = await connect(platform.owner_dsns["test_a"], application_name="tests")
    await holder.execute("SELECT pg_advisory_lock(x'6e65786d'::int)")  # another runner is at work there
    registry = await connect(platform.registry_dsn, application_name="tests")
    tenants = await list_tenant_databases(registry)
    await registry.close()
    results = migrate_tenants(platform.registry_dsn, tenants, migrations)

    async with asyncio.timeout(30):
        first = [(await anext(results)).slug for _ in range(len(SLUGS) - 1)]
    await holder.close()
    last = [result.slug async for result in results]

    assert sorted(first) == SLUGS[1:]
    assert last == ["test_a"]


async def test_a_walk_that_is_left_half_way_leaves_no_task_behind(
    platform: Platform, migrations: list[Migration]
) -> None:
    conn = await connect(platform.owner_dsns["test_a"], application_name="tests")
    assert await migrate_down(conn, migrations[:-1], to=0)
    await conn.close()
    registry = await connect(platform.registry_dsn, application_name="tests")
    tenants = await list_tenant_databases(registry)
    await registry.close()
    results = migrate_tenants(platform.registry_dsn, tenants, migrations)

    await anext(results)
    await results.aclose()

    assert len(asyncio.all_tasks()) == 1
