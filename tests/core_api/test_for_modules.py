"""What modules get for a tenant, and when they are refused."""

from typing import Any
from uuid import uuid4

import pytest

from nexarch.core_client import RefusedByCoreApi, UsageDelta
from nexarch.db import connect
from nexarch.errors import NotFound
from nexarch.user_tokens import UserTokens
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_the_client_of_the_other_services_speaks_with_the_real_core_api(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    async with core_api.client("dms_ingest") as client:
        await client.announce("1.0.0", "http://127.0.0.1:8090")
        slugs = [each.slug async for each in client.tenants()]
        address = await client.database(tenant.slug)
        key = await client.kek(tenant.slug)
        same_key = await client.kek(tenant.slug, key.kek_version)
        delta = UsageDelta(id=uuid4(), tenant_slug=tenant.slug, metric="storage_bytes", delta=7)
        applied = [await client.report_usage([delta]) for _ in range(2)]
        user = await UserTokens(client.jwks).verify(await core_api.token(tenant))

    assert slugs == [tenant.slug]
    assert (address.tenant_id, address.user) == (tenant.id, f"tenant_{tenant.slug}")
    assert (len(key.kek), key.kek_version, same_key.kek) == (32, 1, key.kek)
    assert applied == [1, 0]
    assert (user.id, user.tenant, user.tenant_id, user.role) == (tenant.user_id, tenant.slug, tenant.id, "admin")


async def test_a_suspended_tenant_and_an_unknown_one_are_refused(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

    async with core_api.client("dms_worker") as client:
        with pytest.raises(RefusedByCoreApi) as refused:
            await client.database(tenant.slug)
        with pytest.raises(NotFound):
            await client.kek("nobody_here")

    assert refused.value.members["reason"] == "tenant-suspended"


async def test_a_key_opens_until_it_is_retired_and_no_other_version_does(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    path = f"/v1/tenants/{tenant.slug}/kek"
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")

    async def answer(version: str) -> tuple[int, Any]:
        return await core_api.as_module("dms_ingest", "GET", path, params={"version": version})

    active = await answer("1")
    await conn.execute("UPDATE tenant_keys SET state = 'retiring'")
    retiring = await answer("1")
    await conn.execute("UPDATE tenant_keys SET state = 'retired', retired_at = now()")
    retired, unknown = await answer("1"), await answer("2")
    await conn.close()

    assert (active[0], retiring) == (200, active)
    assert (retired[0], retired[1]["type"]) == (410, "/problems/kek-retired")
    assert (unknown[0], unknown[1]["type"]) == (404, "/problems/kek-not-found")
    for nonsense in ("0", "x", "99999999999", "-1"):
        assert (await answer(nonsense))[0] == 422


async def test_each_tenant_has_a_key_and_a_password_of_its_own(core_api: CoreApi) -> None:
    tenants = [await core_api.create_tenant() for _ in range(2)]

    async with core_api.client("dms_ingest") as client:
        keys = {(await client.kek(tenant.slug)).kek for tenant in tenants}
        passwords = {(await client.database(tenant.slug)).password for tenant in tenants}

    assert (len(keys), len(passwords)) == (2, 2)


async def test_a_sealed_key_in_another_tenants_row_does_not_open(core_api: CoreApi) -> None:
    mine, other = [await core_api.create_tenant() for _ in range(2)]
    conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await conn.execute(
        "UPDATE tenant_keys SET sealed_kek = (SELECT sealed_kek FROM tenant_keys WHERE tenant_id = $1)", other.id
    )
    await conn.close()

    status, problem = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{mine.slug}/kek")

    assert (status, problem["type"]) == (500, "/problems/seal-broken")


async def test_answers_with_secrets_are_not_to_be_kept_by_caches(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    for path in ("kek", "database"):
        url = f"{core_api.url}/v1/tenants/{tenant.slug}/{path}"
        async with core_api.session.get(url, headers=core_api.modules["dms_ingest"].headers) as response:
            assert response.headers["Cache-Control"] == "no-store"


async def test_modules_tell_each_other_which_store_they_see(core_api: CoreApi) -> None:
    one, other = uuid4(), uuid4()
    settings = {"STORAGE_DIR": "0123456789abcdef"}

    async with core_api.client("dms_ingest") as ingest, core_api.client("dms_worker") as worker:
        alone = await ingest.tell_store(one, settings)
        await worker.tell_store(None, {})
        await worker.tell_store(other, settings)
        seen = await ingest.tell_store(one, settings)

    assert alone == []
    assert [(store.module, store.store_id, store.settings) for store in seen] == [("dms_worker", other, settings)]


async def test_a_module_that_is_silent_says_nothing_of_its_store(core_api: CoreApi) -> None:
    async with core_api.client("dms_ingest") as ingest, core_api.client("dms_worker") as worker:
        await worker.tell_store(uuid4(), {})
        conn = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
        await conn.execute("UPDATE module_stores SET told_at = now() - interval '1 minute'")
        await conn.close()

        seen = await ingest.tell_store(uuid4(), {})

    assert seen == []


async def test_what_is_no_fingerprint_of_a_setting_is_refused(core_api: CoreApi) -> None:
    for settings in (
        {"STORAGE_DIR": "/srv/objects"},
        {"storage dir": "0" * 16},
        {f"A{n}": "0" * 16 for n in range(17)},
    ):
        body = {"store_id": None, "settings": settings}
        status, _ = await core_api.as_module("dms_ingest", "POST", "/v1/modules/self/store", json=body)

        assert status == 422
