"""Making tenants: whatever dies or meets, there is exactly one complete tenant in the end."""

import asyncio
import signal
import sys
from dataclasses import replace
from typing import Any

import pytest

from core_api.keys import PROVISIONER
from core_api.master_key import MasterKey
from core_api.provisioning import Provisioner
from nexarch.db import connect
from nexarch.template import ensure_template
from nexarch.tenant_database import create_database, create_role, database_dsn
from support import dying_provisioner
from support.database import Cluster
from support.services import CoreApi, log_in, new_master_key
from support.waiting import eventually

pytestmark = pytest.mark.database

STEPS = ["requested", "role_created", "database_created", "migrated", "key_created"]


def dsn(core_api: CoreApi) -> str:
    return core_api.settings.registry_dsn.get_secret_value()


async def create(core_api: CoreApi, slug: str, *, name: str = "Acme", key: str | None = None) -> tuple[int, Any]:
    headers = core_api.operator | ({} if key is None else {"Idempotency-Key": key})
    return await core_api.call("POST", "/v1/tenants", headers=headers, json={"slug": slug, "name": name})


async def die_after(core_api: CoreApi, slug: str, step: str) -> None:
    """Let another process make the tenant and die by SIGKILL when a step is done."""
    master_key = core_api.settings.master_key.get_secret_value()
    process = await asyncio.create_subprocess_exec(
        sys.executable, dying_provisioner.__file__, dsn(core_api), master_key, slug, step
    )
    assert await process.wait() == -signal.SIGKILL


async def is_complete(core_api: CoreApi, slug: str) -> bool:
    """One row, one database, one role, one key, and the role gets in with the password that modules are told."""
    conn = await connect(dsn(core_api), application_name="tests")
    try:
        sql = """
            SELECT (SELECT count(*) FROM tenants WHERE slug = $1 AND status = 'active' AND schema_version > 0),
                   (SELECT count(*) FROM tenant_keys JOIN tenants ON tenants.id = tenant_id WHERE slug = $1),
                   (SELECT count(*) FROM pg_database WHERE datname = 'tenant_' || $1),
                   (SELECT count(*) FROM pg_roles WHERE rolname = 'tenant_' || $1)
        """
        counts = list((await conn.fetchrow(sql, slug) or {}).values())
    finally:
        await conn.close()
    inside = await log_in(core_api, slug)
    users = await inside.fetchval("SELECT count(*) FROM users")
    await inside.close()
    return counts == [1, 1, 1, 1] and users == 0


@pytest.mark.parametrize("step", STEPS)
async def test_a_retry_finishes_what_a_killed_process_began(step: str, core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, step)
    _, half = await core_api.call("GET", f"/v1/tenants/{slug}")

    status, tenant = await create(core_api, slug)

    assert half["status"] == "provisioning"
    assert (status, tenant["status"], tenant["name"]) == (201, "active", "Acme")
    assert await is_complete(core_api, slug)
    assert (await create(core_api, slug))[0] == 409


async def test_a_process_killed_after_the_last_step_leaves_a_complete_tenant(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, "complete")

    status, problem = await create(core_api, slug)

    assert (status, problem["type"]) == (409, "/problems/slug-taken")
    assert await is_complete(core_api, slug)


async def test_a_retry_waits_until_the_server_notices_that_the_maker_died(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    dying = await connect(dsn(core_api), application_name="tests")
    await dying.execute("SELECT pg_advisory_lock(hashtextextended('nexarch tenant ' || $1, 0))", slug)
    retry = asyncio.create_task(create(core_api, slug))

    async def retry_waits() -> bool:
        sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        return bool(await dying.fetchval(sql))

    await eventually(retry_waits)
    await dying.close()

    assert (await retry)[0] == 201


async def test_who_did_not_hear_the_answer_hears_it_again_with_the_same_key(core_api: CoreApi) -> None:
    slug, other = core_api.new_slug(), core_api.new_slug()
    _, tenant = await create(core_api, slug, key="key-1")

    again = await create(core_api, slug, key="key-1")
    without = await create(core_api, slug)
    another = await create(core_api, slug, key="key-2")
    other_name = await create(core_api, slug, name="Umbrella", key="key-1")
    other_slug = await create(core_api, other, key="key-1")

    assert (again[0], again[1]["id"]) == (201, tenant["id"])
    for status, problem in (without, another):
        assert (status, problem["type"]) == (409, "/problems/slug-taken")
    for status, problem in (other_name, other_slug):
        assert (status, problem["type"]) == (422, "/problems/idempotency-key-reused")
    assert (await core_api.call("GET", f"/v1/tenants/{other}"))[0] == 404


async def test_two_creators_with_one_key_get_the_same_tenant(core_api: CoreApi) -> None:
    slug = core_api.new_slug()

    answers = await asyncio.gather(*(create(core_api, slug, key="key-1") for _ in range(2)))

    assert [status for status, _ in answers] == [201, 201]
    assert answers[0][1]["id"] == answers[1][1]["id"]


async def test_a_database_that_was_made_but_not_recorded_is_taken_over(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, "role_created")
    conn = await connect(dsn(core_api), application_name="tests")
    await create_database(conn, f"tenant_{slug}", template=await ensure_template(dsn(core_api)))
    await conn.close()

    status, tenant = await create(core_api, slug)

    assert status == 201, tenant
    assert await is_complete(core_api, slug)


async def test_a_tenant_is_half_made_until_its_last_step_and_refused_by_name(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, "migrated")

    _, database = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{slug}/database")
    _, suspended = await core_api.call("POST", f"/v1/tenants/{slug}/suspend")

    assert database["type"] == suspended["type"] == "/problems/tenant-unfinished"


async def test_the_sweep_finishes_a_tenant_that_nobody_asks_for_again(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, "database_created")

    too_fresh = await core_api.app[PROVISIONER].finish_tenants(60.0)
    finished = await core_api.app[PROVISIONER].finish_tenants(0.0)

    assert (too_fresh, finished) == ([], [slug])
    assert await is_complete(core_api, slug)


async def test_the_sweep_leaves_a_tenant_to_the_maker_that_works_on_it(core_api: CoreApi) -> None:
    slug = core_api.new_slug()
    await die_after(core_api, slug, "database_created")
    maker = await connect(dsn(core_api), application_name="tests")
    await maker.execute("SELECT pg_advisory_lock(hashtextextended('nexarch tenant ' || $1, 0))", slug)

    beside_the_maker = await core_api.app[PROVISIONER].finish_tenants(0.0)
    await maker.close()

    assert beside_the_maker == []


async def test_the_sweep_goes_on_past_a_tenant_that_cannot_be_finished(core_api: CoreApi, cluster: Cluster) -> None:
    impossible, possible = core_api.new_slug(), core_api.new_slug()
    await die_after(core_api, impossible, "requested")
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    await create_role(superuser, f"tenant_{impossible}", "of somebody else")
    await superuser.close()
    await die_after(core_api, possible, "requested")

    finished = await core_api.app[PROVISIONER].finish_tenants(0.0)

    assert finished == [possible]


async def test_the_sweep_outlives_a_registry_that_is_away() -> None:
    attempts = 0

    def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provisioner = Provisioner(f"postgresql://nobody:secret@127.0.0.1:{port}/nothing", MasterKey(new_master_key()))
    sweep = asyncio.create_task(provisioner.sweep(0.01, 0.0))

    async def tried_again() -> bool:
        return attempts >= 3 or sweep.done()

    await eventually(tried_again)
    server.close()

    assert not sweep.done()
    sweep.cancel()
    assert "secret" not in repr(provisioner)


async def test_of_many_creators_of_one_slug_one_gets_201_and_the_others_409(core_api: CoreApi) -> None:
    slug = core_api.new_slug()

    answers = await asyncio.gather(*(create(core_api, slug) for _ in range(8)))

    assert sorted(status for status, _ in answers) == [201] + [409] * 7
    assert {body["type"] for status, body in answers if status == 409} == {"/problems/slug-taken"}
    assert await is_complete(core_api, slug)


async def test_sixteen_tenants_are_made_at_once(core_api: CoreApi) -> None:
    slugs = [core_api.new_slug() for _ in range(16)]

    answers = await asyncio.gather(*(create(core_api, slug) for slug in slugs))

    assert [status for status, _ in answers] == [201] * 16
    assert all([await is_complete(core_api, slug) for slug in slugs])


async def test_a_template_in_use_is_a_503_and_a_retry_finishes_the_tenant(core_api: CoreApi, cluster: Cluster) -> None:
    slug = core_api.new_slug()
    template = await ensure_template(dsn(core_api))
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    await superuser.execute(f"ALTER DATABASE {template} ALLOW_CONNECTIONS true")
    inside = await connect(database_dsn(cluster.superuser_dsn, template), application_name="tests")
    provisioner = replace(core_api.app[PROVISIONER], template_tries=1)
    try:
        with pytest.raises(Exception, match="template") as busy:
            await provisioner.create_tenant(slug, "Acme")
    finally:
        await inside.close()
        await superuser.execute(f"ALTER DATABASE {template} ALLOW_CONNECTIONS false")
        await superuser.close()

    status, _ = await create(core_api, slug)

    assert getattr(busy.value, "code", None) == "template-busy"
    assert status == 201
    assert await is_complete(core_api, slug)


async def test_a_database_that_belongs_to_another_tenant_is_never_taken_over(
    core_api: CoreApi, cluster: Cluster
) -> None:
    slug = core_api.new_slug()
    assert (await create(core_api, slug))[0] == 201
    conn = await connect(dsn(core_api), application_name="tests")
    await conn.execute("DELETE FROM tenant_keys")
    await conn.execute("DELETE FROM tenants")  # as if the registry were another one
    await conn.close()

    status_role, problem_role = await create(core_api, slug)
    await drop_role(cluster, slug)
    status, problem = await create(core_api, slug)

    assert (status_role, problem_role["type"]) == (409, "/problems/database-name-taken")
    assert (status, problem["type"]) == (409, "/problems/database-name-taken")


async def drop_role(cluster: Cluster, slug: str) -> None:
    conn = await connect(database_dsn(cluster.superuser_dsn, f"tenant_{slug}"), application_name="tests")
    try:
        await conn.execute(f"DROP OWNED BY tenant_{slug} CASCADE")
        await conn.execute(f"DROP ROLE tenant_{slug}")
    finally:
        await conn.close()
