"""Feature flags: on for all, on for some, off when unknown."""

import asyncio
from typing import Any

import asyncpg
import pytest

from support.services import CoreApi

pytestmark = pytest.mark.database


async def is_on(core_api: CoreApi, key: str, slug: str) -> Any:  # noqa: ANN401 - JSON
    _, answer = await core_api.call("GET", f"/v1/tenants/{slug}/flags/{key}")
    return answer["enabled"]


async def test_a_flag_is_on_for_all_for_those_named_or_for_nobody(core_api: CoreApi) -> None:
    named, other = await core_api.create_tenant(), await core_api.create_tenant()
    await core_api.set_flag("everywhere", enabled_for_all=True)
    await core_api.set_flag("here", enabled_for_all=False, tenants=[named.slug])
    await core_api.set_flag("nowhere", enabled_for_all=False)

    values = {
        key: (await is_on(core_api, key, named.slug), await is_on(core_api, key, other.slug))
        for key in ("everywhere", "here", "nowhere", "never-heard-of")
    }

    assert values == {
        "everywhere": (True, True),
        "here": (True, False),
        "nowhere": (False, False),
        "never-heard-of": (False, False),
    }


async def test_setting_a_flag_again_replaces_all_of_it(core_api: CoreApi) -> None:
    first, second = await core_api.create_tenant(), await core_api.create_tenant()
    await core_api.set_flag("beta", enabled_for_all=False, tenants=[first.slug])

    await core_api.set_flag("beta", enabled_for_all=False, tenants=[second.slug, second.slug])

    _, flag = await core_api.call("GET", "/v1/flags/beta")
    assert flag["tenants"] == [second.slug]
    assert not await is_on(core_api, "beta", first.slug)


async def test_an_unknown_target_is_refused_and_changes_nothing(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.set_flag("beta", enabled_for_all=False, tenants=[tenant.slug])
    body = {"enabled_for_all": True, "tenants": [tenant.slug, "nobody"]}

    status, problem = await core_api.call("PUT", "/v1/flags/beta", json=body)

    _, flag = await core_api.call("GET", "/v1/flags/beta")
    assert (status, problem["type"], problem["tenants"]) == (422, "/problems/flag-targets-unknown", ["nobody"])
    assert (flag["enabled_for_all"], flag["tenants"]) == (False, [tenant.slug])


async def test_a_deleted_flag_is_off(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.set_flag("beta", enabled_for_all=True, tenants=[tenant.slug])

    status, _ = await core_api.call("DELETE", "/v1/flags/beta")

    assert status == 204
    assert not await is_on(core_api, "beta", tenant.slug)
    for method in ("GET", "DELETE"):
        status, problem = await core_api.call(method, "/v1/flags/beta")
        assert (status, problem["type"]) == (404, "/problems/flag-not-found")


async def test_keys_have_plain_characters_only(core_api: CoreApi) -> None:
    for key in ("a%2Fb", "a%20b", "%C3%A4", "x" * 129, "a%0A"):
        status, _ = await core_api.call("PUT", f"/v1/flags/{key}", json={"enabled_for_all": True})

        assert status == 404, key


async def test_flags_are_listed_by_key_page_by_page(core_api: CoreApi) -> None:
    for key in ("b", "a"):
        await core_api.set_flag(key, enabled_for_all=False)

    _, first = await core_api.call("GET", "/v1/flags", params={"limit": "2"})
    _, second = await core_api.call("GET", "/v1/flags", params={"limit": "2", "cursor": first["next_cursor"]})

    assert [flag["key"] for flag in first["items"] + second["items"]] == ["a", "b", "dms"]


async def test_others_hear_of_a_flags_change(core_api: CoreApi, bus_dsn: str) -> None:
    heard: asyncio.Queue[object] = asyncio.Queue()
    bus = await asyncpg.connect(bus_dsn)
    await bus.add_listener("flags", lambda *event: heard.put_nowait(event[-1]))

    await core_api.set_flag("beta", enabled_for_all=False)
    await core_api.call("DELETE", "/v1/flags/beta")

    async with asyncio.timeout(10):
        assert [await heard.get(), await heard.get()] == ["beta", "beta"]
    await bus.close()
