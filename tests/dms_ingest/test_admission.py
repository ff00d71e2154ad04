"""What a tenant's settings and the service refuse, before any byte is sent and once all are there."""

from pathlib import Path
from typing import Any

import pytest

from support.containers import office
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest, sign_in, staged_file, stored_files
from support.services import CoreApi

pytestmark = pytest.mark.database


async def set_policies(ingest: Ingest, admin: Person, **changes: object) -> None:
    status, settings = await ingest.call(admin, "PATCH", "/v1/settings", json=changes)
    assert status == 200, settings


async def announce(ingest: Ingest, person: Person, **fields: object) -> tuple[int, Any]:
    body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": 10} | fields
    return await ingest.call(person, "POST", "/v1/uploads", json=body)


async def test_a_tenants_list_replaces_that_of_the_service(core_api: CoreApi, ingest: Ingest) -> None:
    admin, elsewhere = await sign_in(core_api, role="admin"), await sign_in(core_api)
    await set_policies(ingest, admin, allowed_types=["image/*", "text/html"])

    html, _ = await announce(ingest, admin, mime_type="text/html")
    gif, _ = await announce(ingest, admin, mime_type="image/gif")
    pdf, problem = await announce(ingest, admin, mime_type="application/pdf")
    pdf_elsewhere, _ = await announce(ingest, elsewhere, mime_type="application/pdf")

    assert (html, gif, pdf_elsewhere) == (201, 201, 201)
    assert (pdf, problem["type"]) == (415, "/problems/type-not-allowed")
    assert problem["accepted"] == ["image/*", "text/html"]


async def test_a_tenant_lowers_the_limit_of_the_service_and_cannot_raise_it(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    admin = await sign_in(core_api, role="admin")
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, max_upload_bytes=100)) as ingest:
        await set_policies(ingest, admin, max_upload_bytes=50)
        fits, _ = await announce(ingest, admin, size=50)
        too_large, lowered = await announce(ingest, admin, size=51)
        await set_policies(ingest, admin, max_upload_bytes=1000)
        _, not_raised = await announce(ingest, admin, size=101)

    assert (fits, too_large, lowered["type"]) == (201, 413, "/problems/file-too-large")
    assert (lowered["limit_bytes"], not_raised["limit_bytes"]) == (50, 100)


async def test_content_of_another_type_is_refused_at_complete(ingest: Ingest, editor: Person) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    upload_id = await ingest.whole_upload(editor, png)

    status, problem = await ingest.complete(editor, upload_id)

    assert (status, problem["type"]) == (415, "/problems/content-type-mismatch")
    assert (problem["announced"], problem["found"]) == ("application/pdf", "image/png")
    assert stored_files(ingest.settings, editor) == []


@pytest.mark.parametrize("content", [b"", bytes(5000)], ids=["empty", "only NULs"])
async def test_a_file_with_nothing_in_it_is_refused_and_its_upload_ended(
    ingest: Ingest, editor: Person, content: bytes
) -> None:
    upload_id = await ingest.whole_upload(editor, content, filename="leer.txt", mime_type="text/plain")

    status, problem = await ingest.complete(editor, upload_id)
    again, _ = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")

    assert (status, problem["type"], problem["size"]) == (422, "/problems/nothing-in-file", len(content))
    assert again == 404
    assert not staged_file(ingest.settings, editor, upload_id).exists()
    assert stored_files(ingest.settings, editor) == []


async def test_the_bytes_tell_the_type_of_a_file_whose_sender_does_not_know_it(
    core_api: CoreApi, ingest: Ingest
) -> None:
    admin = await sign_in(core_api, role="admin")
    generic = await ingest.upload(admin, office("word/document.xml"), mime_type="application/octet-stream")
    await ingest.call(admin, "PATCH", "/v1/settings", json={"allowed_types": ["application/octet-stream"]})
    upload_id = await ingest.whole_upload(admin, PDF, mime_type="application/octet-stream")

    refused, problem = await ingest.complete(admin, upload_id)
    await ingest.call(admin, "PATCH", "/v1/settings", json={"allowed_types": ["application/pdf"]})
    status, document = await ingest.complete(admin, upload_id)

    assert generic["current_revision"]["mime_type"].endswith(".wordprocessingml.document")
    assert (refused, problem["type"]) == (415, "/problems/type-not-allowed")
    assert (status, document["current_revision"]["mime_type"]) == (200, "application/pdf")
