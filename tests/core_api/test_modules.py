"""Modules: registering, and for which tenants they are active."""

from uuid import uuid4

import pytest

from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_a_registered_module_shows_its_version_and_flags(core_api: CoreApi) -> None:
    body = {"id": "billing", "version": "1.2.3", "required_flags": ["paid", "dms", "paid"]}

    status, module = await core_api.call("POST", "/v1/modules", json=body)

    assert status == 201
    assert (module["version"], module["required_flags"]) == ("1.2.3", ["dms", "paid"])
    assert (await core_api.call("GET", "/v1/modules/billing"))[1] == module
    _, listed = await core_api.call("GET", "/v1/modules")
    assert [each["id"] for each in listed["items"]] == ["alerter", "billing", "dms_ingest", "dms_worker"]


async def test_a_module_is_registered_once_and_changed_by_put(core_api: CoreApi) -> None:
    body = {"id": "alerter", "version": "2.0.0", "required_flags": []}

    status, problem = await core_api.call("POST", "/v1/modules", json=body)
    _, module = await core_api.call("PUT", "/v1/modules/alerter", json={"version": "2.0.0", "required_flags": ["x"]})

    assert (status, problem["type"]) == (409, "/problems/module-exists")
    assert (module["version"], module["required_flags"]) == ("2.0.0", ["x"])


async def test_ids_whose_metrics_would_share_names_are_refused(core_api: CoreApi) -> None:
    for module_id in ("dms", "alerter_two"):
        status, problem = await core_api.call("POST", "/v1/modules", json={"id": module_id, "version": "1"})

        assert (status, problem["type"]) == (409, "/problems/module-prefix-taken")


async def test_an_id_a_version_or_a_flag_of_another_form_is_refused(core_api: CoreApi) -> None:
    good = {"id": "billing", "version": "1", "required_flags": []}
    for change in ({"id": "Billing"}, {"id": "a-b"}, {"version": ""}, {"version": "1 2"}, {"required_flags": ["a/b"]}):
        status, _ = await core_api.call("POST", "/v1/modules", json=good | change)

        assert status == 422, change


async def test_an_unknown_module_is_404(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    paths = ["/v1/modules/nobody", f"/v1/modules/nobody/tenants/{tenant.slug}", "/v1/modules/nobody/credentials"]
    calls: list[tuple[str, str, object]] = [("GET", path, None) for path in paths]
    calls += [("PUT", paths[0], {"version": "1"}), ("POST", paths[2], {})]

    for method, path, body in calls:
        status, problem = await core_api.call(method, path, json=body)
        assert (status, problem["type"]) == (404, "/problems/module-not-found")


async def test_a_module_is_active_when_all_its_flags_are_on(core_api: CoreApi) -> None:
    one, other = await core_api.create_tenant(), await core_api.create_tenant()
    await core_api.set_flag("dms", enabled_for_all=True)
    await core_api.set_flag("paid", enabled_for_all=False, tenants=[one.slug])
    body = {"version": "1", "required_flags": ["dms", "paid"]}
    await core_api.call("PUT", "/v1/modules/dms_ingest", json=body)

    answers = {
        slug: (await core_api.call("GET", f"/v1/modules/dms_ingest/tenants/{slug}"))[1]
        for slug in (one.slug, other.slug)
    }

    assert (answers[one.slug]["active"], answers[one.slug]["flags_off"]) == (True, [])
    assert (answers[other.slug]["active"], answers[other.slug]["flags_off"]) == (False, ["paid"])


async def test_an_inactive_module_is_refused_in_every_call_for_a_tenant(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.set_flag("dms", enabled_for_all=False)
    delta = {
        "id": "00000000-0000-7000-8000-000000000001",
        "tenant_slug": tenant.slug,
        "metric": "storage_bytes",
        "delta": 1,
    }
    calls = [
        ("GET", f"/v1/tenants/{tenant.slug}/database", None),
        ("GET", f"/v1/tenants/{tenant.slug}/kek", None),
        ("POST", "/v1/usage", [delta]),
    ]

    for method, path, body in calls:
        status, problem = await core_api.as_module("dms_worker", method, path, json=body)

        assert (status, problem["type"]) == (403, "/problems/module-not-active"), path
        assert problem["flags_off"] == ["dms"]
    _, usage = await core_api.call("GET", "/v1/usage")
    assert usage["items"] == []


@pytest.mark.parametrize(
    ("module_id", "allowed"),
    [("dms_ingest", {"database", "kek", "usage"}), ("dms_worker", {"database", "kek"}), ("alerter", set())],
)
async def test_a_module_gets_of_a_tenant_what_it_is_meant_to_and_no_more(
    core_api: CoreApi, module_id: str, allowed: set[str]
) -> None:
    tenant = await core_api.create_tenant()
    path = f"/v1/tenants/{tenant.slug}"
    delta = {"id": str(uuid4()), "tenant_slug": tenant.slug, "metric": "storage_bytes", "delta": 1}
    calls: list[tuple[str, str, str, object]] = [
        ("database", "GET", f"{path}/database", None),
        ("kek", "GET", f"{path}/kek", None),
        ("kek", "GET", f"{path}/kek/versions", None),
        ("kek", "POST", f"{path}/kek/retire", None),
        ("usage", "POST", "/v1/usage", [delta]),
    ]

    for scope, method, url, body in calls:
        status, answer = await core_api.as_module(module_id, method, url, json=body)

        if scope in allowed:
            assert status == 200, url
        else:
            assert (status, answer["type"], answer["right"]) == (403, "/problems/scope-missing", scope), url


async def test_a_new_module_gets_nothing_of_a_tenant_until_an_operator_says_so(core_api: CoreApi) -> None:
    _, made = await core_api.call("POST", "/v1/modules", json={"id": "billing", "version": "1"})
    _, given = await core_api.call("PUT", "/v1/modules/billing", json={"version": "1", "scopes": ["usage", "kek"]})
    _, as_before = await core_api.call("PUT", "/v1/modules/billing", json={"version": "2"})
    _, taken = await core_api.call("PUT", "/v1/modules/billing", json={"version": "2", "scopes": []})
    unknown, _ = await core_api.call("PUT", "/v1/modules/billing", json={"version": "2", "scopes": ["root"]})

    assert [module["scopes"] for module in (made, given, as_before, taken)] == [
        [],
        ["kek", "usage"],
        ["kek", "usage"],
        [],
    ]
    assert unknown == 422


async def test_a_deleted_flag_makes_the_modules_that_need_it_inactive(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.call("DELETE", "/v1/flags/dms")

    status, problem = await core_api.as_module("dms_ingest", "GET", f"/v1/tenants/{tenant.slug}/database")

    assert (status, problem["type"]) == (403, "/problems/module-not-active")


async def test_a_module_says_where_it_runs(core_api: CoreApi) -> None:
    body = {"version": "1.4.0", "base_url": "http://127.0.0.1:8091"}

    status, _ = await core_api.as_module("dms_worker", "POST", "/v1/modules/self/announce", json=body)

    _, module = await core_api.call("GET", "/v1/modules/dms_worker")
    assert status == 200
    assert (module["version"], module["base_url"]) == ("1.4.0", "http://127.0.0.1:8091")
    assert module["announced_at"] is not None


async def test_an_address_that_is_no_http_address_is_refused(core_api: CoreApi) -> None:
    for base_url in ("ftp://x", "http://", "javascript:alert(1)", "http://a b", "http://" + "x" * 500):
        body = {"version": "1", "base_url": base_url}
        status, _ = await core_api.as_module("dms_worker", "POST", "/v1/modules/self/announce", json=body)

        assert status == 422, base_url
