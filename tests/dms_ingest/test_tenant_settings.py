"""The tenant's settings over HTTP."""

import asyncio
from typing import Any

import pytest

from support.ingest import Ingest, Person, sign_in, sign_in_another
from support.services import CoreApi

pytestmark = pytest.mark.database


@pytest.fixture
async def admin(core_api: CoreApi) -> Person:
    """An admin of a new tenant."""
    return await sign_in(core_api, role="admin")


async def change(ingest: Ingest, person: Person, **changes: object) -> tuple[int, Any]:
    return await ingest.call(person, "PATCH", "/v1/settings", json=changes)


async def test_a_new_tenant_allows_duplicates_sets_no_limits_and_keeps_its_trash_for_30_days(
    ingest: Ingest, admin: Person
) -> None:
    status, settings = await ingest.call(admin, "GET", "/v1/settings")

    assert status == 200
    assert {name: settings[name] for name in settings if name != "updated_at"} == {
        "duplicates": "allow",
        "allowed_types": None,
        "max_upload_bytes": None,
        "quota_bytes": None,
        "trash_days": 30,
        "version": 1,
        "updated_by": None,
    }


async def test_a_change_leaves_the_other_settings_and_says_who_made_it(ingest: Ingest, admin: Person) -> None:
    await change(ingest, admin, quota_bytes=10**12, trash_days=7)

    status, changed = await change(ingest, admin, duplicates="reject", allowed_types=["Application/PDF", "image/*"])
    _, read = await ingest.call(admin, "GET", "/v1/settings")

    assert status == 200
    assert read == changed
    assert (read["duplicates"], read["allowed_types"]) == ("reject", ["application/pdf", "image/*"])
    assert (read["quota_bytes"], read["trash_days"], read["version"]) == (10**12, 7, 3)
    assert read["updated_by"] is not None


async def test_null_brings_back_what_the_service_allows(ingest: Ingest, admin: Person) -> None:
    await change(ingest, admin, allowed_types=["text/plain"], quota_bytes=5, max_upload_bytes=5)

    _, settings = await change(ingest, admin, allowed_types=None, quota_bytes=None, max_upload_bytes=None)

    assert [settings[name] for name in ("allowed_types", "quota_bytes", "max_upload_bytes")] == [None, None, None]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"duplicates": "ignore"},
        {"duplicates": None},
        {"allowed_types": []},
        {"allowed_types": ["pdf"]},
        {"allowed_types": ["*/*"]},
        {"allowed_types": ["text/html; charset=utf-8"]},
        {"allowed_types": ["text/plain\n"] * 201},
        {"max_upload_bytes": 0},
        {"quota_bytes": -1},
        {"quota_bytes": 2**63},
        {"quota_bytes": 1.5},
        {"trash_days": None},
        {"trash_days": 3651},
        {"trash_days": "30"},
        {"version": 1},
    ],
)
async def test_a_change_that_breaks_a_rule_is_refused_and_changes_nothing(
    ingest: Ingest, admin: Person, changes: dict[str, object]
) -> None:
    status, problem = await change(ingest, admin, **changes)

    _, settings = await ingest.call(admin, "GET", "/v1/settings")
    assert (status, problem["type"]) == (422, "/problems/invalid-body")
    assert settings["version"] == 1


async def test_a_refused_change_is_told_in_our_own_words(ingest: Ingest, admin: Person) -> None:
    _, problem = await change(ingest, admin, allowed_types=["pdf"])

    assert problem["errors"] == [{"pointer": "/allowed_types/0", "detail": "this is neither a media type nor type/*"}]


async def test_of_two_admins_at_once_who_read_the_same_version_one_is_told(ingest: Ingest, admin: Person) -> None:
    read = {"If-Match": '"1"'}

    answers = await asyncio.gather(
        *(ingest.call(admin, "PATCH", "/v1/settings", json={"trash_days": days}, headers=read) for days in (1, 2, 3, 4))
    )

    assert sorted(status for status, _ in answers) == [200, 412, 412, 412]
    refused = next(answer for status, answer in answers if status == 412)
    assert (refused["type"], refused["version"]) == ("/problems/settings-changed", 2)


async def test_the_version_is_the_etag(ingest: Ingest, admin: Person) -> None:
    await change(ingest, admin, trash_days=1)

    async with ingest.session.get(f"{ingest.url}/v1/settings", headers=admin.headers) as response:
        assert response.headers["ETag"] == '"2"'


@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_only_admins_see_and_change_settings(core_api: CoreApi, ingest: Ingest, admin: Person, role: str) -> None:
    other = await sign_in_another(core_api, admin.tenant, email="o@example.org", role=role)

    read, _ = await ingest.call(other, "GET", "/v1/settings")
    written, problem = await change(ingest, other, trash_days=1)

    assert (read, written, problem["type"]) == (403, 403, "/problems/forbidden")


async def test_the_settings_of_one_tenant_are_not_those_of_another(
    core_api: CoreApi, ingest: Ingest, admin: Person
) -> None:
    elsewhere = await sign_in(core_api, role="admin")

    await change(ingest, admin, trash_days=1)

    _, settings = await ingest.call(elsewhere, "GET", "/v1/settings")
    assert settings["trash_days"] == 30
