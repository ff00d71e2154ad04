"""Tenants over HTTP: lists, names, suspending and resuming."""

import asyncio
from typing import Any

import asyncpg
import pytest

from nexarch.db import Connection
from support.services import CoreApi, Tenant
from support.waiting import eventually

pytestmark = pytest.mark.database


async def test_a_slug_of_another_form_is_refused(core_api: CoreApi) -> None:
    injection = 'a"; DROP DATABASE x; --'
    for slug in ("", "a", "Acme", "1acme", "ac-me", "ac me", "acme\n", "ácme", "a" * 50, injection, 7, None):
        status, problem = await core_api.call("POST", "/v1/tenants", json={"slug": slug, "name": "Acme"})

        assert (status, problem["type"]) == (422, "/problems/invalid-body"), slug
        assert problem["errors"][0]["pointer"] == "/slug"


async def test_a_name_that_nobody_could_read_is_refused(core_api: CoreApi) -> None:
    for name in ("   ", "a/b", "a\nb", "x" * 256, "a\0b"):
        status, problem = await core_api.call("POST", "/v1/tenants", json={"slug": core_api.new_slug(), "name": name})

        assert status == 422, name
        assert problem["type"] in {
            "/problems/invalid-tenant",
            "/problems/invalid-body",
            "/problems/text-not-storable",
        }


async def test_a_name_is_stored_composed(core_api: CoreApi) -> None:
    slug = core_api.new_slug()

    _, tenant = await core_api.call("POST", "/v1/tenants", json={"slug": slug, "name": "Mu\u0308ller"})

    assert tenant["name"] == "M\u00fcller"


async def test_tenants_are_listed_by_slug_page_by_page(core_api: CoreApi) -> None:
    slugs = sorted(core_api.new_slug() for _ in range(3))
    for slug in reversed(slugs):
        await core_api.call("POST", "/v1/tenants", json={"slug": slug, "name": slug})

    _, first = await core_api.call("GET", "/v1/tenants", params={"limit": "2"})
    _, second = await core_api.call("GET", "/v1/tenants", params={"limit": "2", "cursor": first["next_cursor"]})

    assert [tenant["slug"] for tenant in first["items"]] == slugs[:2]
    assert [tenant["slug"] for tenant in second["items"]] == slugs[2:]
    assert second["next_cursor"] is None


async def test_an_unknown_tenant_is_404(core_api: CoreApi) -> None:
    for slug in ("nobody", "NOBODY", "a%00b", "..%2f..", "x" * 300):
        for path in ("", "/users"):
            status, problem = await core_api.call("GET", f"/v1/tenants/{slug}{path}")

            assert (status, problem["type"]) == (404, "/problems/tenant-not-found"), slug


async def log_in(core_api: CoreApi, tenant: Tenant) -> Connection:
    _, address = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/database")
    return await log_in_at(address)


async def log_in_at(address: dict[str, Any]) -> Connection:
    return await asyncpg.connect(
        host=address["host"],
        port=address["port"],
        database=address["database"],
        user=address["user"],
        password=address["password"],
    )


async def test_suspending_ends_sessions_and_refuses_modules_users_and_logins(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    _, address = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/database")
    session = await log_in_at(address)

    status, suspended = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

    assert (status, suspended["status"]) == (200, "suspended")

    async def session_is_gone() -> bool:
        return session.is_closed()

    await eventually(session_is_gone)
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await log_in_at(address)
    for path in ("database", "kek"):
        refused, problem = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/{path}")
        assert (refused, problem["type"]) == (403, "/problems/tenant-suspended")
    sign_in = {"tenant": tenant.slug, "email": tenant.email, "password": tenant.password}
    assert (await core_api.call("POST", "/v1/auth/token", headers={}, json=sign_in))[0] == 403
    wrong = sign_in | {"password": "not the password"}
    assert (await core_api.call("POST", "/v1/auth/token", headers={}, json=wrong))[0] == 401


async def test_a_resumed_tenant_is_served_again(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

    status, resumed = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/resume")

    assert (status, resumed["status"]) == (200, "active")
    session = await log_in(core_api, tenant)
    await session.close()
    assert await core_api.token(tenant)


async def test_suspending_and_resuming_twice_changes_nothing_more(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    for action in ("suspend", "resume"):
        _, once = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/{action}")
        status, twice = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/{action}")
        assert (status, twice | {"idle_s": once["idle_s"]}) == (200, once)


async def test_others_hear_of_a_tenants_change(core_api: CoreApi, bus_dsn: str) -> None:
    tenant = await core_api.create_tenant()
    heard: asyncio.Queue[object] = asyncio.Queue()
    bus = await asyncpg.connect(bus_dsn)
    await bus.add_listener("tenants", lambda *event: heard.put_nowait(event[-1]))

    await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")

    async with asyncio.timeout(10):
        assert await heard.get() == tenant.slug
    await bus.close()
