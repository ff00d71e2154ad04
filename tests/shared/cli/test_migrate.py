from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest

from nexarch.db import connect
from nexarch.migrate import read_migrations
from nexarch.tenant_database import create_database, create_role, database_dsn
from support.command import Command
from support.database import Cluster, empty_database
from support.services import CoreApi, owner_database

pytestmark = pytest.mark.database

REGISTRY = [migration.version for migration in read_migrations("registry")]
TENANT = [migration.version for migration in read_migrations("tenant")]


@pytest.fixture
async def empty_registry(cluster: Cluster) -> AsyncIterator[str]:
    async with empty_database(cluster) as dsn:
        yield dsn


async def add_tenant(registry_dsn: str, *, with_database: bool) -> str:
    """A tenant's row, and an empty database of it."""
    slug = f"t{token_hex(6)}"
    conn = await connect(registry_dsn, application_name="tests")
    try:
        if with_database:
            await create_role(conn, f"tenant_{slug}", token_hex(16))
            await create_database(conn, f"tenant_{slug}", template="template0")
        await conn.execute(
            """
            INSERT INTO tenants (slug, name, status, provision_step, sealed_password)
            VALUES ($1, $1, 'provisioning', 'database_created', 'sealed')
            """,
            slug,
        )
    finally:
        await conn.close()
    return slug


async def drop(cluster: Cluster, slug: str) -> None:
    conn = await connect(cluster.superuser_dsn, application_name="tests")
    try:
        await conn.execute(f"DROP DATABASE tenant_{slug} WITH (FORCE)")
        await conn.execute(f"DROP ROLE tenant_{slug}")
    finally:
        await conn.close()


async def test_up_migrates_the_registry_and_a_second_run_applies_nothing(empty_registry: str, tmp_path: Path) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": empty_registry})

    first = await nexarch("migrate", "up", "--json")
    second = await nexarch("migrate", "up", "--json")

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.json["items"] == [{"database": "registry", "applied": REGISTRY, "error": None}]
    assert second.json["items"] == [{"database": "registry", "applied": [], "error": None}]


async def test_status_tells_what_is_pending_and_changes_nothing(empty_registry: str, tmp_path: Path) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": empty_registry})

    before = await nexarch("migrate", "status", "--json")
    again = await nexarch("migrate", "status", "--json")
    await nexarch("migrate", "up")
    after = await nexarch("migrate", "status", "--json")

    assert (before.code, again.code, after.code) == (1, 1, 0)
    assert before.json["items"][0]["pending"] == again.json["items"][0]["pending"] == len(REGISTRY)
    assert after.json["items"][0]["pending"] == 0


async def test_a_tenant_that_fails_is_reported_and_the_others_are_migrated(
    cluster: Cluster, registry_dsn: str, tmp_path: Path
) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": registry_dsn})
    lost = await add_tenant(registry_dsn, with_database=False)
    whole = await add_tenant(registry_dsn, with_database=True)

    result = await nexarch("migrate", "up", "--tenants-only", "--json")

    await drop(cluster, whole)
    assert result.code == 1
    outcomes = {item["database"]: item for item in result.json["items"]}
    assert outcomes[whole] == {"database": whole, "applied": TENANT, "error": None}
    assert outcomes[lost]["error"] is not None
    assert f"tenant {lost}:" in result.err
    assert "Traceback" not in result.err


async def test_one_tenant_goes_down_a_step_and_up_again(cluster: Cluster, registry_dsn: str, tmp_path: Path) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": registry_dsn})
    slug = await add_tenant(registry_dsn, with_database=True)
    await nexarch("migrate", "up", "--tenant", slug)

    down = await nexarch("migrate", "down", "--tenant", slug, "--json")
    status = await nexarch("migrate", "status", "--tenant", slug, "--json")
    up = await nexarch("migrate", "up", "--tenant", slug, "--json")

    await drop(cluster, slug)
    assert down.json["items"] == [{"database": slug, "undone": [TENANT[-1]], "error": None}]
    assert status.json["items"][0]["pending"] == 1
    assert up.json["items"] == [{"database": slug, "applied": [TENANT[-1]], "error": None}]


async def test_an_unknown_tenant_ends_with_3(registry_dsn: str, tmp_path: Path) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": registry_dsn})

    result = await nexarch("migrate", "up", "--tenant", "nobody")

    assert result.code == 3
    assert "nobody" in result.err


async def test_a_wrong_password_ends_with_4_and_is_not_repeated(registry_dsn: str, tmp_path: Path) -> None:
    wrong = database_dsn(registry_dsn, "nexarch_registry", user="nexarch_core", password="hunter2hunter2")

    result = await Command(tmp_path)("migrate", "status", "--dsn", wrong)

    assert result.code == 4
    assert "hunter2" not in result.out + result.err


async def test_a_tenant_is_seeded_for_development_once_however_often_it_is_asked_for(
    core_api: CoreApi, registry_dsn: str, tmp_path: Path
) -> None:
    tenant = await core_api.create_tenant()
    nexarch = Command(tmp_path, {"NEXARCH_REGISTRY_DSN": registry_dsn})

    results = [await nexarch("migrate", "seed", tenant.slug) for _ in range(2)]
    unknown = await nexarch("migrate", "seed", "nobody")

    async with owner_database(core_api, tenant) as conn:
        documents = await conn.fetchval("SELECT count(*) FROM documents")
    assert [result.code for result in results] == [0, 0], results[0].err
    assert documents == 1
    assert unknown.code == 3
