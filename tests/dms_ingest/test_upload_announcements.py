"""Announcing a file over HTTP: what is refused before a byte is sent, and a call that is repeated."""

import asyncio
from typing import Any

import pytest

from support.ingest import PDF, Ingest, Person, sign_in_another
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_an_announcement_that_breaks_a_rule_is_refused(ingest: Ingest, editor: Person) -> None:
    nobody = "01990000-0000-7000-8000-000000000000"
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"mime_type": "application/x-msdownload"}, 415, "type-not-allowed"),
        ({"mime_type": "pdf"}, 422, "invalid-body"),
        ({"size": 20 * 1024**3 + 1}, 413, "file-too-large"),
        ({"size": -1}, 422, "invalid-body"),
        ({"size": "12"}, 422, "invalid-body"),
        ({"filename": ""}, 422, "invalid-body"),
        ({"filename": "a/b.pdf"}, 422, "name-refused"),
        ({"filename": "a\u0000.pdf"}, 422, "text-not-storable"),
        ({"filename": "a\n.pdf"}, 422, "name-refused"),
        ({"filename": ".."}, 422, "name-refused"),
        ({"filename": "x" * 256}, 422, "name-refused"),
        ({"sha256": "00"}, 422, "invalid-body"),
        ({"folder_id": nobody}, 404, "folder-not-found"),
        ({"document_id": nobody}, 404, "document-not-found"),
        ({"folder_id": nobody, "document_id": nobody}, 422, "invalid-body"),
        ({"more": 1}, 422, "invalid-body"),
    ]
    for fields, expected, code in cases:
        body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": 1} | fields

        status, problem = await ingest.call(editor, "POST", "/v1/uploads", json=body)

        assert (status, problem["type"]) == (expected, f"/problems/{code}"), fields


async def test_any_name_of_255_characters_is_kept_in_its_composed_form(ingest: Ingest, editor: Person) -> None:
    for name, stored in [
        ("u\u0308" * 255, "ü" * 255),
        ("報告書 \U0001f4c4 «ß».pdf", "報告書 \U0001f4c4 «ß».pdf"),
        ('a"b;c%2f\\.pdf', 'a"b;c%2f\\.pdf'),
    ]:
        document = await ingest.upload(editor, PDF, filename=name, mime_type="Application/PDF; version=1.7")

        assert document["name"] == stored
        assert document["current_revision"]["mime_type"] == "application/pdf"


async def test_an_idempotency_key_opens_one_upload(ingest: Ingest, editor: Person) -> None:
    body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": 10}
    key = {"Idempotency-Key": "7a6b-1"}

    at_once = await asyncio.gather(
        *(ingest.call(editor, "POST", "/v1/uploads", json=body, headers=key) for _ in range(4))
    )
    other, problem = await ingest.call(editor, "POST", "/v1/uploads", json=body | {"size": 11}, headers=key)
    bad, _ = await ingest.call(editor, "POST", "/v1/uploads", json=body, headers={"Idempotency-Key": "ü"})

    assert [status for status, _ in at_once] == [201] * 4
    assert len({upload["id"] for _, upload in at_once}) == 1
    assert (other, problem["type"]) == (422, "/problems/idempotency-key-reused")
    assert bad == 422


async def test_a_viewer_may_not_upload(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    viewer = await sign_in_another(core_api, editor.tenant, email="viewer@example.org", role="viewer")
    body = {"filename": "Bericht.pdf", "mime_type": "application/pdf", "size": 1}

    status, problem = await ingest.call(viewer, "POST", "/v1/uploads", json=body)

    assert (status, problem["right"]) == (403, "editor")


async def test_a_document_in_the_trash_takes_no_further_revision(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    await ingest.call(editor, "DELETE", f"/v1/documents/{document['id']}")

    new = {"filename": "x.pdf", "mime_type": "application/pdf", "size": 5, "document_id": document["id"]}
    status, problem = await ingest.call(editor, "POST", "/v1/uploads", json=new)

    assert (status, problem["type"]) == (404, "/problems/document-not-found")
