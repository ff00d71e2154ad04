"""The same bytes again: what the tenant's policy makes of them, also when many clients send them at once."""

import asyncio
import hashlib
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dms_ingest.copies import add_copy
from dms_ingest.documents import create_document, delete_document
from dms_ingest.duplicates import find_twin
from dms_ingest.purge import purge_document
from dms_ingest.revisions import sealed_revision
from nexarch.core_client import CoreClient, TenantKey
from nexarch.db import Connection
from support import ingest as ingests
from support.database import TenantDatabase, add_user, until_blocked
from support.documents import a_revision, add_document, new_id
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest, sign_in, stored_files
from support.services import CoreApi

pytestmark = pytest.mark.database

CLIENTS = 16


@pytest.fixture
async def admin(core_api: CoreApi) -> Person:
    return await sign_in(core_api, role="admin")


async def set_policy(ingest: Ingest, admin: Person, policy: str) -> None:
    status, settings = await ingest.call(admin, "PATCH", "/v1/settings", json={"duplicates": policy})
    assert status == 200, settings


async def used_bytes(ingest: Ingest, person: Person) -> int:
    _, usage = await ingest.call(person, "GET", "/v1/usage")
    used: int = usage["used_bytes"]
    return used


async def content_of(ingest: Ingest, person: Person, document: Any) -> bytes:  # noqa: ANN401 - JSON
    url = f"{ingest.url}/v1/documents/{document['id']}/content"
    async with ingest.session.get(url, headers=person.headers) as response:
        assert response.status == 200
        return await response.read()


@pytest.mark.parametrize(
    ("policy", "statuses", "objects"),
    [
        ("reject", {200: 1, 409: CLIENTS - 1}, 1),
        ("link", {200: CLIENTS}, 1),
        ("allow", {200: CLIENTS}, CLIENTS),
    ],
)
async def test_of_16_clients_that_send_the_same_bytes_at_once_one_stores_them_unless_all_may(
    core_api: CoreApi,
    bus_dsn: str,
    tmp_path: Path,
    admin: Person,
    policy: str,
    statuses: dict[int, int],
    objects: int,
) -> None:
    content = PDF + os.urandom(300_000)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    # Two services on one staging folder and store: each completes four at a time.
    async with run_ingest(settings) as one, run_ingest(settings) as other:
        await set_policy(one, admin, policy)
        uploads = await asyncio.gather(*(one.whole_upload(admin, content, filename=f"{n}.pdf") for n in range(CLIENTS)))

        answers = await asyncio.gather(
            *((one, other)[n % 2].complete(admin, upload) for n, upload in enumerate(uploads))
        )

        documents = [answer for status, answer in answers if status == 200]
        refusals = [answer for status, answer in answers if status == 409]
        assert Counter(status for status, _ in answers) == statuses
        assert len({document["id"] for document in documents}) == len(documents)
        assert {problem["type"] for problem in refusals} <= {"/problems/duplicate-file"}
        assert {(problem["document_id"], problem["revision"]) for problem in refusals} <= {(documents[0]["id"], 1)}
        assert len(stored_files(settings, admin)) == objects
        assert await used_bytes(one, admin) == objects * len(content)
        for document in documents:
            assert await content_of(one, admin, document) == content
    async with ingests.tenant_database(core_api, admin) as conn:
        assert await conn.fetchval("SELECT sum(delta) FROM usage_outbox") == objects * len(content)


async def test_a_linked_document_has_its_own_name_place_and_type_and_outlives_the_first(
    ingest: Ingest, admin: Person
) -> None:
    await set_policy(ingest, admin, "link")
    _, folder = await ingest.call(admin, "POST", "/v1/folders", json={"name": "Kopien"})
    first = await ingest.upload(admin, b"ein Text", filename="Erstes.txt", mime_type="text/plain")

    second = await ingest.upload(
        admin, b"ein Text", filename="Zweites.md", mime_type="text/markdown", folder_id=folder["id"]
    )
    await remove(ingest, admin, first)
    kept = await content_of(ingest, admin, second)
    used_by_one = await used_bytes(ingest, admin)
    await remove(ingest, admin, second)

    assert (second["name"], second["folder_id"]) == ("Zweites.md", folder["id"])
    assert second["current_revision"]["mime_type"] == "text/markdown"
    assert (kept, used_by_one) == (b"ein Text", len(b"ein Text"))
    assert (stored_files(ingest.settings, admin), await used_bytes(ingest, admin)) == ([], 0)


async def remove(ingest: Ingest, person: Person, document: Any) -> None:  # noqa: ANN401 - JSON
    """Delete a document and purge it."""
    deleted, _ = await ingest.call(person, "DELETE", f"/v1/documents/{document['id']}")
    purged, _ = await ingest.call(person, "POST", f"/v1/documents/{document['id']}/purge")
    assert (deleted, purged) == (204, 204)


@pytest.mark.parametrize("damage", ["gone", "cut"])
async def test_a_file_that_is_sent_again_because_its_object_is_lost_is_not_linked_to_that(
    ingest: Ingest, admin: Person, damage: str
) -> None:
    await set_policy(ingest, admin, "link")
    await ingest.upload(admin, PDF)
    [object_] = stored_files(ingest.settings, admin)
    if damage == "gone":
        object_.unlink()
    else:
        object_.write_bytes(object_.read_bytes()[:-1])

    again = await ingest.upload(admin, PDF)

    assert await content_of(ingest, admin, again) == PDF


async def test_what_lies_in_the_trash_is_no_duplicate(ingest: Ingest, admin: Person) -> None:
    await set_policy(ingest, admin, "reject")
    first = await ingest.upload(admin, PDF)
    await ingest.call(admin, "DELETE", f"/v1/documents/{first['id']}")

    second = await ingest.upload(admin, PDF)

    assert second["id"] != first["id"]


async def test_an_announced_digest_is_refused_before_any_byte_is_sent(ingest: Ingest, admin: Person) -> None:
    await set_policy(ingest, admin, "reject")
    document = await ingest.upload(admin, PDF)
    body = {"filename": "x.pdf", "mime_type": "application/pdf", "size": len(PDF)}
    digest = document["current_revision"]["sha256"]

    status, problem = await ingest.call(admin, "POST", "/v1/uploads", json=body | {"sha256": digest})

    assert (status, problem["type"]) == (409, "/problems/duplicate-file")
    assert (problem["document_id"], problem["revision"]) == (document["id"], 1)
    assert "Bericht.pdf" in problem["detail"]


async def test_a_document_may_return_to_an_older_file_but_not_get_the_one_it_has(ingest: Ingest, admin: Person) -> None:
    await set_policy(ingest, admin, "reject")
    other = PDF + b"other"
    document = await ingest.upload(admin, PDF)
    await ingest.upload(admin, other, document_id=document["id"])
    same = await ingest.whole_upload(admin, other, document_id=document["id"])

    refused, problem = await ingest.complete(admin, same)
    back = await ingest.upload(admin, PDF, document_id=document["id"])

    assert (refused, problem["document_id"], problem["revision"]) == (409, document["id"], 2)
    assert back["current_revision"]["number"] == 3


async def test_a_refused_upload_can_be_completed_once_the_other_document_is_gone(ingest: Ingest, admin: Person) -> None:
    await set_policy(ingest, admin, "reject")
    first = await ingest.upload(admin, PDF)
    upload_id = await ingest.whole_upload(admin, PDF)
    refused, _ = await ingest.complete(admin, upload_id)
    await ingest.call(admin, "DELETE", f"/v1/documents/{first['id']}")

    status, document = await ingest.complete(admin, upload_id)

    assert (refused, status) == (409, 200)
    assert document["id"] != first["id"]


async def test_a_twin_is_not_purged_before_the_document_that_is_linked_to_it_is_there(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection]
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "e@example.org", "editor")
    linking, purging = two_conns
    first = await add_document(linking, user_id)
    sha256 = hashlib.sha256(b"content").digest()

    async with linking.transaction():
        twin = await find_twin(linking, sha256, None)
        assert twin is not None
        await delete_document(purging, first, if_versions=None)
        purge = asyncio.create_task(purged(purging, first))
        await until_blocked(purging, by=linking)
        second = a_revision(await new_id(linking), await new_id(linking), user_id)
        await create_document(linking, document_id=second.document_id, name="Zwilling", folder_id=None, user_id=user_id)
        await add_copy(linking, replace(second, storage_key=twin.storage_key), twin)
    doomed = await purge

    assert doomed == []
    assert (await sealed_revision(linking, second.document_id)).storage_key == twin.storage_key


async def test_a_twin_that_is_removed_while_a_link_to_it_is_made_gives_way_to_the_next_one(
    ingest: Ingest, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = PDF + os.urandom(1000)
    first = await ingest.upload(admin, content)
    second = await ingest.upload(admin, content)
    await set_policy(ingest, admin, "link")
    given, removed = CoreClient.kek, False

    async def meanwhile(self: CoreClient, slug: str, version: int | None = None) -> TenantKey:
        nonlocal removed
        if version is not None and not removed:  # to open the key of the twin; a new one is wrapped under the newest
            removed = True
            await ingest.call(admin, "DELETE", f"/v1/documents/{first['id']}")
            await ingest.call(admin, "POST", f"/v1/documents/{first['id']}/purge")
        return await given(self, slug, version)

    monkeypatch.setattr(CoreClient, "kek", meanwhile)
    third = await ingest.upload(admin, content)

    assert removed
    assert await content_of(ingest, admin, third) == content
    assert [path.name for path in stored_files(ingest.settings, admin)] == [second["current_revision"]["id"]]


async def purged(conn: Connection, document_id: UUID) -> list[str]:
    async with conn.transaction():
        return await purge_document(conn, document_id)


@pytest.mark.parametrize("policy", ["link", "reject"])
async def test_a_twin_that_is_known_to_be_damaged_does_not_count(
    core_api: CoreApi, ingest: Ingest, admin: Person, policy: str
) -> None:
    await set_policy(ingest, admin, policy)
    content = PDF + os.urandom(1000)
    first = await ingest.upload(admin, content)
    async with ingests.tenant_database(core_api, admin) as conn:
        await conn.execute("UPDATE stored_objects SET damage = 'content', checked_at = now()")

    second = await ingest.upload(admin, content)
    answer = await ingest.complete(admin, await ingest.whole_upload(admin, content))

    assert len(stored_files(ingest.settings, admin)) == 2
    assert await content_of(ingest, admin, second) == content
    if policy == "link":
        assert answer[0] == 200
    else:
        assert (answer[0], answer[1]["document_id"]) == (409, second["id"])
    assert first["id"] != second["id"]
