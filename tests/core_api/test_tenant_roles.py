"""What a tenant's role in Postgres may do, and who gets in as it."""

import asyncpg
import pytest

from nexarch.db import connect
from support.database import Cluster
from support.services import CoreApi, log_in

pytestmark = pytest.mark.database


async def test_a_tenants_role_gets_into_no_other_database(core_api: CoreApi) -> None:
    mine, other = await core_api.create_tenant(), await core_api.create_tenant()
    registry = core_api.settings.registry_dsn.get_secret_value().rpartition("/")[2]

    for database in (f"tenant_{other.slug}", registry):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="CONNECT"):
            await log_in(core_api, mine.slug, database=database)


async def test_a_tenants_role_reads_no_password_and_makes_no_table(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    conn = await log_in(core_api, tenant.slug)

    try:
        for statement in ("SELECT password_hash FROM users", "DELETE FROM users", "CREATE TABLE mine (id int)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.execute(statement)
    finally:
        await conn.close()


async def test_a_tenants_role_has_time_limits_of_its_own(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    conn = await log_in(core_api, tenant.slug)

    settings = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
    values = [await conn.fetchval(f"SHOW {setting}") for setting in settings]
    await conn.close()

    assert values == ["1min", "10s", "1min"]


async def test_a_tenants_random_password_costs_its_clients_few_rounds_and_lets_nobody_else_in(
    core_api: CoreApi, cluster: Cluster
) -> None:
    tenant = await core_api.create_tenant()
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    try:
        sql = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = ANY($1)"
        names = [f"tenant_{tenant.slug}", "nexarch_core"]
        verifiers = {row["rolname"]: row["rolpassword"] for row in await superuser.fetch(sql, names)}
    finally:
        await superuser.close()

    assert verifiers[f"tenant_{tenant.slug}"].startswith("SCRAM-SHA-256$16:")
    assert verifiers["nexarch_core"].startswith("SCRAM-SHA-256$4096:")
    conn = await log_in(core_api, tenant.slug)
    await conn.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await log_in(core_api, tenant.slug, password="another password")
