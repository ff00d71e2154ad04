"""What stands in the audit trail, and that it stays there."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from dms_ingest.audit_trail import AuditFilter, list_events
from nexarch.audit import Action, record, record_each
from nexarch.db import Connection, connect
from support.database import Cluster, registry_core_dsn
from support.ingest import (
    PDF,
    Ingest,
    Person,
    ingest_settings,
    run_ingest,
    sign_in,
    sign_in_another,
)
from support.services import CoreApi

pytestmark = pytest.mark.database


@pytest.fixture
async def admin(core_api: CoreApi) -> Person:
    return await sign_in(core_api, role="admin")


async def events(ingest: Ingest, admin: Person, **query: str) -> list[Any]:
    status, page = await ingest.call(admin, "GET", "/v1/audit", params=query)
    assert status == 200, page
    items: list[Any] = page["items"]
    return items


async def actions(ingest: Ingest, admin: Person, **query: str) -> list[str]:
    return [event["action"] for event in reversed(await events(ingest, admin, **query))]


async def test_the_life_of_a_document_is_told_with_who_when_and_where_from(ingest: Ingest, admin: Person) -> None:
    document = await ingest.upload(admin, PDF)
    path = f"/v1/documents/{document['id']}"
    await ingest.upload(admin, PDF + b"2", document_id=document["id"])
    await ingest.call(admin, "POST", f"{path}/revisions/1/restore")
    await ingest.call(admin, "DELETE", path, headers={"X-Request-Id": "it-was-me"})
    await ingest.call(admin, "POST", f"{path}/restore")
    await ingest.call(admin, "DELETE", path)
    await ingest.call(admin, "POST", f"{path}/purge")

    told = await events(ingest, admin, document=document["id"])

    assert [event["action"] for event in reversed(told)] == [
        "document.uploaded",
        "document.uploaded",
        "revision.restored",
        "document.deleted",
        "document.restored",
        "document.deleted",
        "document.purged",
    ]
    assert {event["user_email"] for event in told} == {admin.tenant.email}
    assert {event["address"] for event in told} == {"127.0.0.1"}
    assert told[3]["request_id"] == "it-was-me"
    assert told[-1]["revision_id"] == document["current_revision"]["id"]
    assert abs(datetime.fromisoformat(told[0]["at"]) - datetime.now(UTC)) < timedelta(minutes=5)


async def test_renaming_and_moving_is_told_one_by_one_and_in_bulk(ingest: Ingest, admin: Person) -> None:
    first, second = await ingest.upload(admin, PDF), await ingest.upload(admin, PDF + b"2")
    _, folder = await ingest.call(admin, "POST", "/v1/folders", json={"name": "Akten"})
    await ingest.call(admin, "PATCH", f"/v1/documents/{first['id']}", json={"name": "a.pdf", "folder_id": folder["id"]})
    third = await ingest.upload(admin, PDF + b"3")
    items = [
        {"document_id": first["id"], "folder_id": None},
        {"document_id": second["id"], "folder_id": folder["id"]},
        {"document_id": third["id"]},  # stays where it is
    ]
    await ingest.call(admin, "POST", "/v1/documents/bulk", json={"items": items})
    await ingest.call(admin, "POST", "/v1/documents/bulk", json={"items": [{**items[0], "folder_id": str(uuid4())}]})

    moves = await events(ingest, admin, action="document.moved")
    renames = await events(ingest, admin, action="document.renamed")

    told = {(event["document_id"], event["details"]["to"]) for event in moves}
    assert told == {(first["id"], folder["id"]), (first["id"], None), (second["id"], folder["id"])}
    assert len(moves) == 3
    assert [(event["document_id"], event["details"]) for event in renames] == [(first["id"], {})]
    assert {event["user_email"] for event in moves + renames} == {admin.tenant.email}
    assert {event["address"] for event in moves + renames} == {"127.0.0.1"}


async def test_what_becomes_of_a_folder_is_told(ingest: Ingest, admin: Person) -> None:
    _, above = await ingest.call(admin, "POST", "/v1/folders", json={"name": "Akten"})
    _, folder = await ingest.call(admin, "POST", "/v1/folders", json={"name": "Neu"})
    path = f"/v1/folders/{folder['id']}"
    await ingest.call(admin, "PATCH", path, json={"name": "2026", "parent_id": above["id"]})
    await ingest.call(admin, "DELETE", f"/v1/folders/{above['id']}")  # is not empty
    await ingest.call(admin, "DELETE", path)

    told = await events(ingest, admin)

    of_folder = {"folder_id": folder["id"]}
    assert [(event["action"], event["details"]) for event in reversed(told)] == [
        ("folder.renamed", of_folder),
        ("folder.moved", of_folder | {"to": above["id"]}),
        ("folder.deleted", of_folder),
    ]


async def test_each_download_that_gives_out_bytes_is_one_event(ingest: Ingest, admin: Person) -> None:
    document = await ingest.upload(admin, PDF)
    url = f"{ingest.url}/v1/documents/{document['id']}/content"
    etag = f'"{document["current_revision"]["sha256"]}"'

    for method, headers in [
        ("GET", {}),
        ("GET", {"Range": "bytes=0-4"}),
        ("HEAD", {}),
        ("GET", {"If-None-Match": etag}),
        ("GET", {"Range": "bytes=9999-"}),
    ]:
        async with ingest.session.request(method, url, headers=admin.headers | headers) as response:
            await response.read()

    part, whole = await events(ingest, admin, action="document.downloaded")
    assert (whole["details"], part["details"]) == ({}, {"range": f"bytes 0-4/{len(PDF)}"})
    assert whole["revision_id"] == document["current_revision"]["id"]


async def test_no_byte_leaves_where_the_event_cannot_be_written(
    cluster: Cluster, ingest: Ingest, admin: Person
) -> None:
    document = await ingest.upload(admin, PDF)
    role = f"tenant_{admin.tenant.slug}"
    owner = await connect(registry_core_dsn(cluster, role), application_name="tests")
    try:
        await owner.execute(f"REVOKE INSERT ON audit_events FROM {role}")
    finally:
        await owner.close()

    status, problem = await ingest.call(admin, "GET", f"/v1/documents/{document['id']}/content")

    assert (status, problem["type"]) == (500, "/problems/internal-error")


async def test_a_link_is_told_of_when_it_is_made_and_when_it_is_followed_without_its_signature(
    ingest: Ingest, admin: Person
) -> None:
    document = await ingest.upload(admin, PDF)
    _, link = await ingest.call(admin, "POST", f"/v1/documents/{document['id']}/links", json={"expires_in": 60})
    async with ingest.session.get(ingest.url + link["url"]) as response:
        assert response.status == 200
    async with ingest.session.get(ingest.url + link["url"] + "x") as response:
        assert response.status == 403

    await ingest.call(admin, "POST", f"/v1/documents/{document['id']}/links/revoke")

    revoked, followed, made = (await events(ingest, admin))[:3]

    assert (revoked["action"], revoked["document_id"]) == ("link.revoked", document["id"])

    assert (made["action"], made["user_id"] is None) == ("link.made", False)
    assert (followed["action"], followed["user_id"]) == ("link.followed", None)
    assert made["link_key_id"] == followed["link_key_id"] != ""
    assert link["url"].rpartition("sig=")[2] not in f"{made}{followed}"


async def test_events_are_found_by_document_user_action_and_time_in_pages(
    core_api: CoreApi, ingest: Ingest, admin: Person
) -> None:
    other = await sign_in_another(core_api, admin.tenant, email="other@example.org")
    mine, theirs = await ingest.upload(admin, PDF), await ingest.upload(other, PDF + b"2")
    everything = await events(ingest, admin)
    last = everything[0]

    assert await actions(ingest, admin, document=theirs["id"]) == ["document.uploaded"]
    assert [event["document_id"] for event in await events(ingest, admin, user=last["user_id"])] == [theirs["id"]]
    assert await actions(ingest, admin, action="document.deleted") == []
    assert [e["document_id"] for e in await events(ingest, admin, until=last["at"])] == [mine["id"]]
    assert [e["document_id"] for e in await events(ingest, admin, since=last["at"])] == [theirs["id"]]
    _, first = await ingest.call(admin, "GET", "/v1/audit", params={"limit": "1"})
    _, second = await ingest.call(admin, "GET", "/v1/audit", params={"limit": "1", "cursor": first["next_cursor"]})
    assert first["items"] + second["items"] == everything
    assert second["next_cursor"] is None


async def test_only_admins_read_the_audit_trail(ingest: Ingest, editor: Person) -> None:
    status, problem = await ingest.call(editor, "GET", "/v1/audit")

    assert (status, problem["right"]) == (403, "admin")


@pytest.mark.parametrize("query", [{"since": "2024-01-01T00:00:00"}, {"action": "x"}, {"user": "x"}, {"until": "soon"}])
async def test_a_filter_that_is_none_is_refused(ingest: Ingest, admin: Person, query: dict[str, str]) -> None:
    status, _ = await ingest.call(admin, "GET", "/v1/audit", params=query)

    assert status == 422


async def test_a_change_of_the_settings_is_told(ingest: Ingest, admin: Person) -> None:
    await ingest.call(admin, "PATCH", "/v1/settings", json={"trash_days": 3})

    [event] = await events(ingest, admin, action="settings.changed")

    assert event["details"] == {"version": 2, "changes": ["trash_days"]}


async def test_an_act_that_fails_leaves_no_event(ingest: Ingest, admin: Person) -> None:
    document = await ingest.upload(admin, PDF)
    path = f"/v1/documents/{document['id']}"

    for method, call in [("POST", "restore"), ("POST", "purge"), ("POST", "revisions/1/restore")]:
        await ingest.call(admin, method, f"{path}/{call}")
    await ingest.call(admin, "DELETE", path, headers={"If-Match": '"99"'})

    assert await actions(ingest, admin) == ["document.uploaded"]


async def test_behind_a_proxy_that_we_trust_the_address_is_the_clients(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, admin: Person
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, trusted_proxies="127.0.0.0/8")
    async with run_ingest(settings) as ingest:
        document = await ingest.upload(admin, PDF)
        await ingest.call(
            admin, "DELETE", f"/v1/documents/{document['id']}", headers={"X-Forwarded-For": "1.2.3.4, 203.0.113.9"}
        )

        [event] = await events(ingest, admin, action="document.deleted")

    assert event["address"] == "203.0.113.9"


async def test_behind_the_front_the_address_is_what_it_says_last(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, admin: Person
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, front="localhost", trusted_proxies="10.0.0.0/8")
    async with run_ingest(settings) as ingest:
        document = await ingest.upload(admin, PDF)
        headers = {"X-Forwarded-For": "1.2.3.4, 203.0.113.9, 10.0.0.7"}  # a proxy of the user's stands before the front
        await ingest.call(admin, "DELETE", f"/v1/documents/{document['id']}", headers=headers)

        [event] = await events(ingest, admin, action="document.deleted")

    assert event["address"] == "203.0.113.9"


async def test_the_tenants_role_can_neither_change_nor_remove_events(tenant_conn: Connection) -> None:
    await record(tenant_conn, Action.DOCUMENT_DELETED, user_id=None)

    for statement in ["UPDATE audit_events SET user_id = NULL", "DELETE FROM audit_events", "TRUNCATE audit_events"]:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with tenant_conn.transaction():
                await tenant_conn.execute(statement)


async def test_events_are_pruned_by_age_some_at_a_time(tenant_conn: Connection) -> None:
    sql = (
        "INSERT INTO audit_events (id, action) SELECT uuidv7(-make_interval(days => n)), 'a.b' FROM unnest($1::int[]) n"
    )
    await tenant_conn.execute(sql, [1, 39, 41, 42, 43])

    steps = [await tenant_conn.fetchval("SELECT prune_audit_events('40 days', 2)") for _ in range(3)]

    assert steps == [2, 1, 0]
    assert await tenant_conn.fetchval("SELECT count(*) FROM audit_events") == 2


async def test_the_platforms_own_acts_have_neither_user_nor_address(tenant_conn: Connection) -> None:
    ids = [uuid4(), uuid4()]
    await record_each(tenant_conn, Action.DOCUMENT_PURGED, ids, user_id=None)

    told = await list_events(tenant_conn, AuditFilter(), before=None, limit=5)

    assert {event.document_id for event in told} == set(ids)
    assert {(event.user_id, event.address, event.request_id) for event in told} == {(None, None, None)}


@pytest.mark.parametrize("year", [1, 1969, 9999])
async def test_any_time_may_be_asked_for(tenant_conn: Connection, year: int) -> None:
    await record(tenant_conn, Action.DOCUMENT_DELETED, user_id=None)

    since = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)

    assert len(await list_events(tenant_conn, AuditFilter(since=since), before=None, limit=5)) == (year < 2000)
