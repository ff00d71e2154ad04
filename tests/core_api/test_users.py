"""A tenant's users."""

from uuid import uuid4

import pytest

from core_api.passwords import Passwords
from support.services import PASSWORD, CoreApi, owner_database

pytestmark = pytest.mark.database


@pytest.fixture
def passwords() -> Passwords:
    """Those that people get."""
    return Passwords()


async def test_an_address_serves_one_user_of_a_tenant_whatever_its_case(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant(email="Ada@Example.org")
    body = {"email": "aDA@example.ORG", "password": PASSWORD, "role": "viewer"}

    status, problem = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/users", json=body)

    assert (status, problem["type"]) == (409, "/problems/email-taken")
    _, users = await core_api.call("GET", f"/v1/tenants/{tenant.slug}/users")
    assert [user["email"] for user in users["items"]] == ["ada@example.org"]


async def test_two_tenants_may_have_users_with_one_address(core_api: CoreApi) -> None:
    first = await core_api.create_tenant(email="ada@example.org")
    second = await core_api.create_tenant(email="ada@example.org")

    assert first.user_id != second.user_id


BROKEN_RULES: list[dict[str, object]] = [
    {"email": "nobody"},
    {"email": "a b@example.org"},
    {"email": f"{'a' * 250}@example.org"},
    {"password": "too short"},
    {"role": "root"},
    {"display_name": "a\nb"},
    {"admin": True},
]


async def test_a_user_that_breaks_a_rule_is_refused_without_repeating_the_password(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    for change in BROKEN_RULES:
        body = {"email": "b@example.org", "password": PASSWORD, "role": "viewer"} | change

        status, problem = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/users", json=body)

        assert status == 422, change
        assert PASSWORD not in str(problem)
        assert "too short" not in str(problem)


async def test_users_are_listed_in_pages_without_their_passwords(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant(email="a@example.org")
    await core_api.add_user(tenant.slug, email="b@example.org", role="viewer")
    path = f"/v1/tenants/{tenant.slug}/users"

    _, first = await core_api.call("GET", path, params={"limit": "1"})
    _, second = await core_api.call("GET", path, params={"limit": "1", "cursor": first["next_cursor"]})

    assert [user["email"] for user in first["items"] + second["items"]] == ["a@example.org", "b@example.org"]
    assert second["next_cursor"] is None
    assert set(first["items"][0]) == {"id", "email", "display_name", "role", "created_at", "disabled_at"}


async def test_a_disabled_user_gets_no_token(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    path = f"/v1/tenants/{tenant.slug}/users/{tenant.user_id}/disable"

    status, user = await core_api.call("POST", path)
    _, again = await core_api.call("POST", path)

    assert (status, again) == (200, user)
    assert user["disabled_at"] is not None
    sign_in = {"tenant": tenant.slug, "email": tenant.email, "password": tenant.password}
    assert (await core_api.call("POST", "/v1/auth/token", headers={}, json=sign_in))[0] == 401


async def test_an_unknown_user_is_404(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    for user_id in (str(uuid4()), "7", "..%2f"):
        status, _ = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/users/{user_id}/disable")

        assert status == 404, user_id


async def test_a_user_of_another_tenant_is_404(core_api: CoreApi) -> None:
    mine, other = await core_api.create_tenant(), await core_api.create_tenant()

    status, _ = await core_api.call("POST", f"/v1/tenants/{mine.slug}/users/{other.user_id}/disable")

    assert status == 404


async def test_the_database_holds_argon2id_and_nothing_readable(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()

    async with owner_database(core_api, tenant) as conn:
        stored = await conn.fetchval("SELECT password_hash FROM users")

    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


async def test_no_user_is_added_to_a_suspended_tenant(core_api: CoreApi) -> None:
    tenant = await core_api.create_tenant()
    await core_api.call("POST", f"/v1/tenants/{tenant.slug}/suspend")
    body = {"email": "b@example.org", "password": PASSWORD, "role": "viewer"}

    status, problem = await core_api.call("POST", f"/v1/tenants/{tenant.slug}/users", json=body)

    assert (status, problem["type"]) == (403, "/problems/tenant-suspended")
