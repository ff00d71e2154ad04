"""Usage: each id is applied exactly once."""

import asyncio
import random
from typing import Any
from uuid import UUID, uuid4

import pytest

from core_api.keys import REGISTRY
from support.services import CoreApi

pytestmark = pytest.mark.database


def delta(slug: str, size: int, *, id_: UUID | None = None, metric: str = "storage_bytes") -> dict[str, Any]:
    return {"id": str(id_ or uuid4()), "tenant_slug": slug, "metric": metric, "delta": size}


async def report(core_api: CoreApi, *deltas: dict[str, Any]) -> tuple[int, Any]:
    return await core_api.as_module("dms_ingest", "POST", "/v1/usage", json=list(deltas))


async def totals(core_api: CoreApi, **params: str) -> dict[tuple[str, str], int]:
    _, page = await core_api.call("GET", "/v1/usage", params=params)
    return {(item["tenant_slug"], item["metric"]): item["value"] for item in page["items"]}


async def test_changes_of_several_tenants_add_up(core_api: CoreApi) -> None:
    one, other = await core_api.create_tenant(), await core_api.create_tenant()

    status, answer = await report(core_api, delta(one.slug, 100), delta(other.slug, 7), delta(one.slug, -30))

    assert (status, answer) == (200, {"applied": 3})
    assert await totals(core_api) == {(one.slug, "storage_bytes"): 70, (other.slug, "storage_bytes"): 7}
    assert await totals(core_api, tenant=one.slug) == {(one.slug, "storage_bytes"): 70}


async def test_an_id_is_applied_once_within_a_call_and_across_calls(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    first, second = delta(tenant.slug, 10), delta(tenant.slug, 5)

    answers = [await report(core_api, first, first), await report(core_api, first, second), await report(core_api)]

    assert [answer["applied"] for _, answer in answers] == [1, 1, 0]
    assert await totals(core_api) == {(tenant.slug, "storage_bytes"): 15}


async def test_many_calls_with_common_ids_at_once_apply_each_once(core_api: CoreApi) -> None:
    tenants = [await core_api.create_tenant() for _ in range(2)]
    deltas = [delta(tenants[number % 2].slug, 1) for number in range(60)]

    def shuffled(seed: int) -> list[dict[str, Any]]:
        return random.Random(seed).sample(deltas, 40)

    sent = [shuffled(seed) for seed in range(12)]
    answers = await asyncio.gather(*(report(core_api, *batch) for batch in sent))

    distinct = {each["id"] for batch in sent for each in batch}
    assert [status for status, _ in answers] == [200] * 12
    assert sum(answer["applied"] for _, answer in answers) == len(distinct)
    assert sum((await totals(core_api)).values()) == len(distinct)


async def test_one_refused_tenant_refuses_the_whole_call_by_name(core_api: CoreApi) -> None:
    good, suspended = await core_api.create_tenant(), await core_api.create_tenant()
    await core_api.call("POST", f"/v1/tenants/{suspended.slug}/suspend")

    unknown = await report(core_api, delta(good.slug, 1), delta("nobody", 1))
    refused = await report(core_api, delta(good.slug, 1), delta(suspended.slug, 1))

    assert (unknown[0], unknown[1]["type"], unknown[1]["tenant"]) == (404, "/problems/tenant-not-found", "nobody")
    assert (refused[0], refused[1]["tenant"]) == (403, suspended.slug)
    assert await totals(core_api) == {}


async def test_a_change_of_another_form_is_refused(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    good = delta(tenant.slug, 1)
    for change in ({"id": "7"}, {"delta": 1.5}, {"delta": 2**60}, {"metric": "Storage"}, {"metric": "a\n"}, {"x": 1}):
        status, _ = await report(core_api, good | change)

        assert status == 422, change


async def test_a_call_takes_a_thousand_changes_and_no_more(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    most = await report(core_api, *(delta(tenant.slug, 1) for _ in range(1000)))
    too_many = await report(core_api, *(delta(tenant.slug, 1) for _ in range(1001)))

    assert (most[1], too_many[0]) == ({"applied": 1000}, 422)
    assert await totals(core_api) == {(tenant.slug, "storage_bytes"): 1000}


async def test_totals_come_in_pages(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    for metric in ("b", "a", "c"):
        await report(core_api, delta(tenant.slug, 1, metric=metric))

    _, first = await core_api.call("GET", "/v1/usage", params={"limit": "2"})
    _, second = await core_api.call("GET", "/v1/usage", params={"limit": "2", "cursor": first["next_cursor"]})

    assert [item["metric"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


async def test_a_falsified_total_is_summed_up_anew_while_changes_come(core_api: CoreApi) -> None:
    tenant, other = await core_api.create_tenant(), await core_api.create_tenant()
    await report(core_api, delta(tenant.slug, 10), delta(tenant.slug, 3, metric="pages"), delta(other.slug, 4))
    async with core_api.app[REGISTRY].acquire() as conn:
        await conn.execute("UPDATE usage_totals SET value = value + 1000")

    answers = await asyncio.gather(
        *(report(core_api, delta(tenant.slug, 1)) for _ in range(20)),
        *(core_api.call("POST", f"/v1/tenants/{tenant.slug}/usage/recount") for _ in range(3)),
    )
    unknown, _ = await core_api.call("POST", "/v1/tenants/nobody/usage/recount")

    assert sorted(answer["corrected_bytes"] for _, answer in answers[20:]) == [-1000, 0, 0]
    assert await totals(core_api) == {
        (tenant.slug, "storage_bytes"): 30,
        (tenant.slug, "pages"): 3,
        (other.slug, "storage_bytes"): 1004,
    }
    assert unknown == 404
