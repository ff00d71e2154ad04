"""Usage reaches core-api exactly once, whoever is away meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from dms_ingest.usage_delivery import UsageDelivery
from nexarch.core_client import CoreClient, UsageDelta, open_core_client
from nexarch.tenancy import TenantPools
from nexarch.usage import record_storage
from support.database import Cluster, free_port
from support.ingest import Person, lock_out, sign_in, tenant_database
from support.proxy import SwallowingProxy
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database


@asynccontextmanager
async def pools_of(core: CoreClient) -> AsyncIterator[TenantPools]:
    pools = TenantPools(core.database, application_name="tests")
    try:
        yield pools
    finally:
        await pools.close()


@asynccontextmanager
async def running(delivery: UsageDelivery) -> AsyncIterator[None]:
    task = asyncio.create_task(delivery.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def record(core: CoreApi, person: Person, *deltas: int) -> None:
    async with tenant_database(core, person) as conn:
        for delta in deltas:
            await record_storage(conn, delta)


async def told(core: CoreApi, person: Person) -> int | None:
    _, usage = await core.call("GET", "/v1/usage")
    values = {row["tenant_slug"]: row["value"] for row in usage["items"]}
    return values.get(person.tenant.slug)


async def waiting(core: CoreApi, person: Person) -> int:
    async with tenant_database(core, person) as conn:
        count: int = await conn.fetchval("SELECT count(*) FROM usage_outbox WHERE delivered_at IS NULL")
        return count


async def test_the_outbox_of_every_tenant_is_delivered_at_the_start_and_when_woken(
    core_api: CoreApi, editor: Person
) -> None:
    await record(core_api, editor, 100, -30)
    async with core_api.client("dms_ingest") as core, pools_of(core) as pools:
        delivery = UsageDelivery(core, pools)
        async with running(delivery):
            await eventually(lambda: is_told(core_api, editor, 70))
            await record(core_api, editor, 1000)

            delivery.wake(editor.tenant.slug)

            await eventually(lambda: is_told(core_api, editor, 1070))
    assert await waiting(core_api, editor) == 0


async def is_told(core: CoreApi, person: Person, value: int) -> bool:
    return await told(core, person) == value


async def test_what_was_told_but_not_marked_is_counted_once(core_api: CoreApi, editor: Person) -> None:
    await record(core_api, editor, 100, 200)
    async with core_api.client("dms_ingest") as core, pools_of(core) as pools:
        async with tenant_database(core_api, editor) as conn:
            rows = await conn.fetch("SELECT id, metric, delta FROM usage_outbox ORDER BY id LIMIT 1")
        # As a process does that is killed between core-api's answer and its own note of it.
        await core.report_usage([UsageDelta(tenant_slug=editor.tenant.slug, **dict(row)) for row in rows])

        async with running(UsageDelivery(core, pools)), running(UsageDelivery(core, pools)):
            await eventually(lambda: none_waits(core_api, editor))

    assert await told(core_api, editor) == 300


async def none_waits(core: CoreApi, person: Person) -> bool:
    return await waiting(core, person) == 0


async def test_rows_wait_while_core_api_is_away(core_api: CoreApi, editor: Person) -> None:
    credentials = core_api.modules["dms_ingest"]
    address = urlsplit(core_api.url)
    proxy = SwallowingProxy(address.hostname or "", address.port or 0)
    proxy.port = free_port()
    await record(core_api, editor, 5)
    async with (
        core_api.client("dms_ingest") as near,
        pools_of(near) as pools,
        open_core_client(
            f"http://127.0.0.1:{proxy.port}", credentials.client_id, SecretStr(credentials.client_secret)
        ) as far,
    ):
        delivery = UsageDelivery(far, pools)
        async with running(delivery):
            await eventually(lambda: failed_twice(delivery))
            assert await waiting(core_api, editor) == 1

            await proxy.accept()

            await eventually(lambda: is_told(core_api, editor, 5))
    await proxy.close()


async def test_a_tenant_that_is_suspended_or_locked_out_holds_up_nobody_else(
    core_api: CoreApi, cluster: Cluster, editor: Person
) -> None:
    suspended, locked_out = await sign_in(core_api), await sign_in(core_api)
    for person in (suspended, locked_out):
        await record(core_api, person, 7)
    await core_api.call("POST", f"/v1/tenants/{suspended.tenant.slug}/suspend")
    await lock_out(cluster, locked_out.tenant.slug)
    await record(core_api, editor, 5)
    async with core_api.client("dms_ingest") as core, pools_of(core) as pools:
        delivery = UsageDelivery(core, pools)
        for person in (suspended, locked_out):
            delivery.wake(person.tenant.slug)

        async with running(delivery):
            await eventually(lambda: is_told(core_api, editor, 5))

    assert await told(core_api, suspended) is None
    assert await told(core_api, locked_out) is None


async def test_refused_credentials_do_not_end_the_delivery(core_api: CoreApi, editor: Person) -> None:
    client_id = core_api.modules["dms_ingest"].client_id
    async with (
        core_api.client("dms_ingest") as core,
        pools_of(core) as pools,
        open_core_client(core_api.url, client_id, SecretStr("wrong")) as refused,
    ):
        delivery = UsageDelivery(refused, pools)
        async with running(delivery):
            await eventually(lambda: failed_twice(delivery))


async def failed_twice(delivery: UsageDelivery) -> bool:
    return delivery.failures >= 2
