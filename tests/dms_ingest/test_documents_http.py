"""Documents over HTTP: what a caller sees of them and of their state."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from nexarch import jobs
from nexarch.storage import ObjectNotFound, open_storage
from support.documents import set_state
from support.ingest import PDF, Ingest, Person, sign_in, sign_in_another, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database


async def names(ingest: Ingest, person: Person, query: str = "") -> list[str]:
    """The names in the list, over all its pages of two."""
    found: list[str] = []
    cursor = ""
    while True:
        status, page = await ingest.call(person, "GET", f"/v1/documents?limit=2{query}{cursor}")
        assert status == 200, page
        found += [document["name"] for document in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_documents_are_listed_newest_first_and_filtered(ingest: Ingest, editor: Person) -> None:
    _, folder = await ingest.call(editor, "POST", "/v1/folders", json={"name": "Akten"})
    for number in range(5):
        await ingest.upload(editor, PDF, filename=f"{number}.pdf", folder_id=folder["id"] if number % 2 else None)

    assert await names(ingest, editor) == ["4.pdf", "3.pdf", "2.pdf", "1.pdf", "0.pdf"]
    assert await names(ingest, editor, f"&folder={folder['id']}") == ["3.pdf", "1.pdf"]
    assert await names(ingest, editor, "&folder=root") == ["4.pdf", "2.pdf", "0.pdf"]
    assert await names(ingest, editor, "&text=3.PDF") == ["3.pdf"]
    assert await names(ingest, editor, "&tag=keiner") == []


async def test_a_document_is_renamed_and_moved_at_the_version_that_was_read(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF, filename="Alt.pdf")
    path = f"/v1/documents/{document['id']}"
    _, folder = await ingest.call(editor, "POST", "/v1/folders", json={"name": "Akten"})
    read = f'"{document["version"]}"'

    status, changed = await ingest.call(
        editor, "PATCH", path, json={"name": "Neu.pdf", "folder_id": folder["id"]}, headers={"If-Match": read}
    )
    stale, problem = await ingest.call(editor, "PATCH", path, json={"name": "X.pdf"}, headers={"If-Match": read})
    back, top = await ingest.call(editor, "PATCH", path, json={"folder_id": None}, headers={"If-Match": "*"})

    assert (status, changed["name"], changed["folder_id"]) == (200, "Neu.pdf", folder["id"])
    assert (stale, problem["type"], problem["version"]) == (412, "/problems/version-changed", changed["version"])
    assert (back, top["name"], top["folder_id"]) == (200, "Neu.pdf", None)


async def test_of_two_writers_at_once_who_read_the_same_version_one_is_told(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    path = f"/v1/documents/{document['id']}"
    read = {"If-Match": f'"{document["version"]}"'}

    answers = await asyncio.gather(
        *(ingest.call(editor, "PATCH", path, json={"name": f"{n}.pdf"}, headers=read) for n in range(4))
    )

    assert sorted(status for status, _ in answers) == [200, 412, 412, 412]
    _, now = await ingest.call(editor, "GET", path)
    assert now["version"] == document["version"] + 1


async def test_a_tag_that_is_not_ours_matches_no_version(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    path = f"/v1/documents/{document['id']}"

    for tag in ['W/"2"', '"abc"', '"0"', '"99999999999999999999"', '"-1"']:
        status, _ = await ingest.call(editor, "DELETE", path, headers={"If-Match": tag})

        assert status == 412, tag


async def test_a_change_that_makes_no_sense_is_refused(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    bodies: list[dict[str, Any]] = [
        {},
        {"name": None},
        {"name": "a/b"},
        {"name": "a\u0000"},
        {"size": 1},
        {"folder_id": "x"},
    ]
    for body in bodies:
        status, _ = await ingest.call(editor, "PATCH", f"/v1/documents/{document['id']}", json=body)

        assert status == 422, body


async def test_the_etag_is_the_version_that_if_match_takes(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    url = f"{ingest.url}/v1/documents/{document['id']}"

    async with ingest.session.get(url, headers=editor.headers) as response:
        etag = response.headers["ETag"]
    async with ingest.session.delete(url, headers=editor.headers | {"If-Match": etag}) as response:
        deleted = response.status
    async with ingest.session.get(url, headers=editor.headers) as response:
        gone = response.status

    assert (deleted, gone) == (204, 404)


async def test_a_failed_document_shows_why_and_is_tried_again_on_request(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)
    path = f"/v1/documents/{document['id']}"
    too_early, problem = await ingest.call(editor, "POST", f"{path}/retry")
    async with tenant_database(core_api, editor) as conn:
        [job] = await jobs.claim(conn, "worker-1", {"extract_text": 1})
        await jobs.fail(conn, job, jobs.JobError("file-broken", "x"), delay_s=0, permanent=True)
        await set_state(conn, UUID(document["current_revision"]["id"]), "failed", code="file-broken")

    _, failed = await ingest.call(editor, "GET", path)
    status, again = await ingest.call(editor, "POST", f"{path}/retry")

    assert (too_early, problem["type"]) == (409, "/problems/not-failed")
    assert failed["processing_state"] == "failed"
    assert failed["processing_error"] == {"code": "file-broken", "detail": "It cannot be read."}
    assert (status, again["processing_state"], again["processing_error"]) == (202, "queued", None)


async def test_a_purge_removes_rows_and_objects_and_gives_the_usage_back(core_api: CoreApi, ingest: Ingest) -> None:
    admin = await sign_in(core_api, role="admin")
    document = await ingest.upload(admin, PDF)
    path = f"/v1/documents/{document['id']}"
    key = f"documents/{document['id']}/revisions/{document['current_revision']['id']}"

    early, _ = await ingest.call(admin, "POST", f"{path}/purge")
    await ingest.call(admin, "DELETE", path)
    status, _ = await ingest.call(admin, "POST", f"{path}/purge")
    again, _ = await ingest.call(admin, "POST", f"{path}/purge")

    assert (early, status, again) == (409, 204, 404)
    async with open_storage(ingest.settings) as storage:
        with pytest.raises(ObjectNotFound):
            await storage.head(admin.tenant.slug, key)
    async with tenant_database(core_api, admin) as conn:
        assert await conn.fetchval("SELECT sum(delta) FROM usage_outbox") == 0


async def test_only_an_admin_purges_and_a_viewer_changes_nothing(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)
    path = f"/v1/documents/{document['id']}"
    viewer = await sign_in_another(core_api, editor.tenant, email="viewer@example.org", role="viewer")

    calls = [
        (editor, "POST", f"{path}/purge", None),
        (viewer, "PATCH", path, {"name": "x"}),
        (viewer, "DELETE", path, None),
        (viewer, "POST", f"{path}/links", {"expires_in": 60}),
        (viewer, "POST", "/v1/folders", {"name": "x"}),
        (viewer, "POST", "/v1/tags", {"name": "x"}),
        (editor, "POST", "/v1/metadata-fields", {"name": "x", "type": "text"}),
    ]
    for person, method, called, body in calls:
        status, problem = await ingest.call(person, method, called, json=body)
        assert (status, problem["type"]) == (403, "/problems/forbidden"), called
    status, _ = await ingest.call(viewer, "GET", path)
    assert status == 200


async def test_revisions_are_listed_newest_first_in_pages(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    for number in range(2):
        await ingest.upload(editor, PDF + b"x" * number, document_id=document["id"])
    path = f"/v1/documents/{document['id']}/revisions"

    _, first = await ingest.call(editor, "GET", f"{path}?limit=2")
    _, second = await ingest.call(editor, "GET", f"{path}?limit=2&cursor={first['next_cursor']}")

    assert [item["number"] for item in first["items"] + second["items"]] == [3, 2, 1]
    assert second["next_cursor"] is None
    assert first["items"][0]["processing_state"] == "queued"


async def test_folders_tags_and_metadata_work_together(core_api: CoreApi, ingest: Ingest) -> None:
    admin = await sign_in(core_api, role="admin")
    document = await ingest.upload(admin, PDF)
    path = f"/v1/documents/{document['id']}"
    _, top = await ingest.call(admin, "POST", "/v1/folders", json={"name": "oben"})
    _, below = await ingest.call(admin, "POST", "/v1/folders", json={"name": "unten", "parent_id": top["id"]})
    _, tag = await ingest.call(admin, "POST", "/v1/tags", json={"name": "Wichtig"})
    _, field = await ingest.call(admin, "POST", "/v1/metadata-fields", json={"name": "Betrag", "type": "number"})

    assigned, _ = await ingest.call(admin, "PUT", f"{path}/tags/{tag['id']}")
    valued, value = await ingest.call(admin, "PUT", f"{path}/metadata/{field['id']}", json={"value": 12.5})
    refused, _ = await ingest.call(admin, "PUT", f"{path}/metadata/{field['id']}", json={"value": "zwölf"})
    cycle, _ = await ingest.call(admin, "PATCH", f"/v1/folders/{top['id']}", json={"parent_id": below["id"]})
    full, _ = await ingest.call(admin, "DELETE", f"/v1/folders/{top['id']}")

    assert (assigned, valued, refused, cycle, full) == (204, 200, 422, 409, 409)
    assert value["value"] == 12.5
    assert await names(ingest, admin, "&tag=wichtig") == [document["name"]]
    _, tree = await ingest.call(admin, "GET", "/v1/folders")
    _, children = await ingest.call(admin, "GET", f"/v1/folders?parent={top['id']}")
    _, values = await ingest.call(admin, "GET", f"{path}/metadata")
    assert [folder["name"] for folder in tree["items"]] == ["oben", "unten"]
    assert [folder["name"] for folder in children["items"]] == ["unten"]
    assert [item["value"] for item in values["items"]] == [12.5]
    for call in [f"{path}/tags/{tag['id']}", f"{path}/metadata/{field['id']}", f"/v1/tags/{tag['id']}"]:
        status, _ = await ingest.call(admin, "DELETE", call)
        assert status == 204, call


async def test_a_cursor_that_is_not_ours_is_refused(ingest: Ingest, editor: Person) -> None:
    for path in ["documents?", "folders?", "tags?", "metadata-fields?", "search?q=x&"]:
        for cursor in ["x", "!!", "WyJ4Il0", "WyJ4IiwieSJd", "WyLCsiJd", "W10", "e30"]:
            status, problem = await ingest.call(editor, "GET", f"/v1/{path}cursor={cursor}")

            assert (status, problem["type"]) == (422, "/problems/bad-cursor"), (path, cursor)
