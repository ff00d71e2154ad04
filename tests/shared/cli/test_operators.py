"""`nexarch tenants`, `users`, `flags` and `modules` against a running core-api."""

import pytest

from support.command import Command
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_a_tenant_is_created_shown_suspended_and_resumed(core_api: CoreApi, operator: Command) -> None:
    slug = core_api.new_slug()

    created = await operator("tenants", "create", slug, "--name", "Äpfel & Söhne", "--json")
    suspended = await operator("tenants", "suspend", slug, "--json")
    resumed = await operator("tenants", "resume", slug, "--json")
    shown = await operator("tenants", "show", slug)

    assert created.code == 0, created.err
    assert (created.json["slug"], created.json["name"]) == (slug, "Äpfel & Söhne")
    assert (suspended.json["status"], resumed.json["status"]) == ("suspended", "active")
    assert "Äpfel & Söhne" in shown.out
    assert "active" in shown.out


async def test_a_slug_in_use_is_refused_in_one_line_with_1(core_api: CoreApi, operator: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await operator("tenants", "create", tenant.slug)

    assert (result.code, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    assert tenant.slug in result.err


async def test_an_unknown_tenant_ends_with_3(operator: Command) -> None:
    result = await operator("tenants", "show", "nobody")

    assert result.code == 3
    assert result.err.startswith("nexarch: There is no tenant 'nobody'.")


async def test_a_slug_cannot_name_another_path(operator: Command) -> None:
    result = await operator("tenants", "show", "../flags")

    assert result.code == 2


async def test_lists_go_over_several_pages(core_api: CoreApi, operator: Command) -> None:
    slugs = [(await core_api.create_tenant()).slug for _ in range(3)]

    first = await operator("tenants", "list", "--limit", "2", "--json")
    rest = await operator("tenants", "list", "--cursor", first.json["next_cursor"], "--json")

    listed = [tenant["slug"] for tenant in first.json["items"] + rest.json["items"]]
    assert len(first.json["items"]) == 2
    assert sorted(listed) == sorted(slugs)
    assert rest.json["next_cursor"] is None


async def test_a_list_is_a_table_for_people(core_api: CoreApi, operator: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await operator("tenants", "list")

    header, line = result.out.splitlines()
    assert header.split() == ["slug", "name", "status", "created"]
    assert line.startswith(tenant.slug)


async def test_a_wrong_token_ends_with_4_and_says_what_to_do(core_api: CoreApi, operator: Command) -> None:
    result = await operator("tenants", "list", variables={"NEXARCH_OPERATOR_TOKEN": "wrong"})

    assert result.code == 4
    assert "NEXARCH_OPERATOR_TOKEN" in result.err


async def test_a_user_is_made_with_a_password_from_stdin_that_is_not_shown(
    core_api: CoreApi, operator: Command
) -> None:
    tenant = await core_api.create_tenant()

    result = await operator(
        "users", "create", tenant.slug, "eve@example.org", "--role", "viewer", "--password-stdin", "--json",
        stdin="a long password\n",
    )  # fmt: skip

    assert result.code == 0, result.err
    assert result.json["role"] == "viewer"
    assert "a long password" not in result.out + result.err
    assert await core_api.token(tenant, email="eve@example.org", password="a long password")


async def test_a_generated_password_is_shown_once_and_works(core_api: CoreApi, operator: Command) -> None:
    tenant = await core_api.create_tenant()

    result = await operator("users", "create", tenant.slug, "eve@example.org", "--generate-password", "--json")

    assert await core_api.token(tenant, email="eve@example.org", password=result.json["password"])


async def test_a_user_is_listed_and_disabled(core_api: CoreApi, operator: Command) -> None:
    tenant = await core_api.create_tenant()

    disabled = await operator("users", "disable", tenant.slug, str(tenant.user_id), "--json")
    listed = await operator("users", "list", tenant.slug, "--json")

    assert disabled.json["disabled_at"] is not None
    assert [user["id"] for user in listed.json["items"]] == [str(tenant.user_id)]


async def test_a_flag_is_set_for_one_tenant_and_deleted(core_api: CoreApi, operator: Command) -> None:
    tenant = await core_api.create_tenant()

    flag = await operator("flags", "set", "new_search", "--off", "--tenant", tenant.slug, "--json")
    listed = await operator("flags", "list", "--json")
    deleted = await operator("flags", "delete", "new_search")
    again = await operator("flags", "delete", "new_search")

    assert (flag.json["enabled_for_all"], flag.json["tenants"]) == (False, [tenant.slug])
    assert "new_search" in [item["key"] for item in listed.json["items"]]
    assert (deleted.code, again.code) == (0, 3)


async def test_a_credential_is_provisioned_with_its_secret_and_revoked(core_api: CoreApi, operator: Command) -> None:
    made = await operator("modules", "provision", "alerter", "--json")
    revoked = await operator("modules", "revoke", "alerter", made.json["id"], "--json")
    listed = await operator("modules", "credentials", "alerter", "--json")

    assert made.json["client_secret"]
    assert revoked.json["revoked_at"] is not None
    assert "client_secret" not in listed.json["items"][0]
    assert len(listed.json["items"]) == 2


async def test_the_modules_are_listed(operator: Command) -> None:
    result = await operator("modules", "list")

    assert {"alerter", "dms_ingest", "dms_worker"} <= {line.split()[0] for line in result.out.splitlines()}
