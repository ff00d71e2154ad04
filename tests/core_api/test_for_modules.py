"""What modules get for a tenant, and when they are refused."""

from uuid import uuid4

import pytest

from nexarch.core_client import RefusedByCoreApi, UsageDelta
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
