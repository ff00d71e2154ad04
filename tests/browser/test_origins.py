"""What pages may ask and read, by their origin."""

import json

import pytest

from support.chromium import Page, PageError
from support.ingest import PDF, Ingest, Person, a_pdf, tenant_database
from support.services import CoreApi
from support.site import Site
from support.tus import CHUNK_TYPE, VERSION, metadata

pytestmark = pytest.mark.database

LARGE = 8 << 20  # bytes: more than any buffer on the way takes, so an answer may come before all are sent


async def create(page: Page, ingest: Ingest, person: Person, size: int) -> str:
    """Open a tus upload from the page; returns its path."""
    headers = person.headers | VERSION | {"Upload-Length": str(size)} | metadata(filename="契約書.pdf")
    created = await page.fetch(f"{ingest.url}/files/", method="POST", headers=headers)
    assert created.status == 201, created.text
    return created.headers["location"]


async def test_a_page_reads_where_its_upload_is_how_far_it_came_and_which_document_it_became(
    open_ingest: Ingest, editor: Person, page: Page
) -> None:
    path = await create(page, open_ingest, editor, len(PDF))
    headers = editor.headers | VERSION

    before = await page.fetch(open_ingest.url + path, method="HEAD", headers=headers)
    sent = headers | {"Content-Type": CHUNK_TYPE, "Upload-Offset": "0"}
    refused = await page.fetch(open_ingest.url + path, method="PATCH", headers=sent | {"Upload-Offset": "7"}, body="x")
    await open_ingest.session.patch(open_ingest.url + path, headers=sent, data=PDF)
    after = await page.fetch(open_ingest.url + path, method="HEAD", headers=headers)

    assert (before.status, before.headers["upload-offset"], before.headers["upload-length"]) == (200, "0", "15")
    assert {"upload-expires", "upload-metadata", "tus-resumable", "x-request-id"} <= before.headers.keys()
    assert (refused.status, refused.headers["upload-offset"]) == (409, "0")
    assert (after.status, after.headers["upload-offset"]) == (200, "15")
    _, listed = await open_ingest.call(editor, "GET", "/v1/documents")
    assert [document["id"] for document in listed["items"]] == [after.headers["nexarch-document-id"]]


async def test_a_page_asks_what_the_service_speaks(open_ingest: Ingest, page: Page) -> None:
    spoken = await page.fetch(f"{open_ingest.url}/files/", method="OPTIONS")

    assert spoken.status == 204
    assert {"tus-version", "tus-extension", "tus-max-size", "tus-checksum-algorithm"} <= spoken.headers.keys()


CHUNKS_REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({"Authorization": "Bearer not.a.token"}, 401, "invalid-token"),
    ({"Upload-Offset": "7"}, 409, "offset-conflict"),
    ({"Tus-Resumable": "0.2.2"}, 412, "tus-version-unknown"),
    ({}, 413, "beyond-announced-size"),
    ({"Content-Type": "application/json"}, 415, "unsupported-type"),
]


async def test_a_page_reads_why_a_chunk_was_refused_however_large_it_is(
    open_ingest: Ingest, editor: Person, page: Page
) -> None:
    path = await create(page, open_ingest, editor, 15)
    right = editor.headers | VERSION | {"Content-Type": CHUNK_TYPE, "Upload-Offset": "0"}

    for changes, status, code in CHUNKS_REFUSED:
        refused = await page.fetch(open_ingest.url + path, method="PATCH", headers=right | changes, body=LARGE)

        assert (refused.status, refused.json["type"]) == (status, f"/problems/{code}")
        assert refused.headers["content-type"].startswith("application/problem+json")
        assert refused.headers["x-request-id"] == refused.json["request_id"]


async def test_a_page_reads_why_a_call_of_the_json_face_was_refused(
    open_ingest: Ingest, editor: Person, page: Page
) -> None:
    uploads = f"{open_ingest.url}/v1/uploads"
    taken = editor.headers | {"Content-Type": "application/json", "Idempotency-Key": "one"}

    async def announce(headers: dict[str, str], **changes: object) -> tuple[int, str]:
        body = {"filename": "a.pdf", "mime_type": "application/pdf", "size": 15} | changes
        answer = await page.fetch(uploads, method="POST", headers=headers, body=json.dumps(body))
        return answer.status, answer.json.get("type", answer.headers.get("location"))

    status, location = await announce(taken)
    content = f"{open_ingest.url}{location}/content?offset=0"
    beyond = await page.fetch(content, method="PUT", headers=editor.headers, body=LARGE)

    assert status == 201
    assert await announce(taken) == (201, location), "the same call again"
    assert await announce(taken, size=16) == (422, "/problems/idempotency-key-reused")
    assert await announce({"Content-Type": "application/json"}) == (401, "/problems/unauthorized")
    assert await announce(taken, size=1 << 50) == (413, "/problems/file-too-large")
    assert (beyond.status, beyond.json["type"]) == (413, "/problems/beyond-announced-size")


async def test_a_page_changes_a_document_only_as_it_knows_it(open_ingest: Ingest, editor: Person, page: Page) -> None:
    document = await open_ingest.upload(editor, a_pdf())
    url = f"{open_ingest.url}/v1/documents/{document['id']}"
    sent = editor.headers | {"Content-Type": "application/json"}

    seen = await page.fetch(url, headers=editor.headers)
    first, second = [
        await page.fetch(url, method="PATCH", headers=sent | {"If-Match": seen.headers["etag"]}, body=body)
        for body in ('{"name": "first.pdf"}', '{"name": "second.pdf"}')
    ]
    gone = await page.fetch(url, method="DELETE", headers=editor.headers | {"If-Match": first.headers["etag"]})

    assert (first.status, first.json["name"]) == (200, "first.pdf")
    assert (second.status, second.json["type"]) == (412, "/problems/version-changed")
    assert gone.status == 204


@pytest.mark.parametrize("where", ["another site", "no site"])
async def test_pages_of_other_origins_get_nowhere(
    where: str, core_api: CoreApi, open_ingest: Ingest, editor: Person, page: Page, other_site: Site
) -> None:
    await page.open(other_site.url if where == "another site" else "data:text/html,<p>Of no origin")
    json_body = {"Content-Type": "application/json"}
    announced = json.dumps({"filename": "a.pdf", "mime_type": "application/pdf", "size": 15})
    tus_headers = VERSION | {"Upload-Length": "15"} | metadata(filename="a.pdf")

    for method, path, headers, body in (
        ("POST", "/files/", editor.headers | tus_headers, ""),
        ("POST", "/v1/uploads", editor.headers | json_body, announced),
        ("GET", "/v1/documents", editor.headers, ""),
        ("GET", "/v1/documents", {}, ""),  # which the browser asks without asking first
    ):
        complaints = len(page.console)
        with pytest.raises(PageError, match="Failed to fetch"):
            await page.fetch(open_ingest.url + path, method=method, headers=headers, body=body)
        assert "blocked by CORS policy" in "".join(page.console[complaints:])

    async with tenant_database(core_api, editor) as conn:
        assert await conn.fetchval("SELECT count(*) FROM upload_sessions") == 0


async def test_a_client_in_a_page_of_another_origin_uploads_nothing(
    core_api: CoreApi, open_ingest: Ingest, editor: Person, page: Page, other_site: Site
) -> None:
    await page.open(other_site.url)
    options = f"{{ingest: {json.dumps(open_ingest.url)}, token: async () => {json.dumps(editor.token)}}}"

    with pytest.raises(PageError, match="Failed to fetch"):
        await page.run(f"examples.json.upload(new File(['%PDF-1.7'], 'a.pdf'), {options})")

    async with tenant_database(core_api, editor) as conn:
        assert await conn.fetchval("SELECT count(*) FROM upload_sessions") == 0
