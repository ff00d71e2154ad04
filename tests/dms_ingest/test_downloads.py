"""Downloads over HTTP: what comes, and what it says of itself."""

import asyncio
import hashlib
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest

from dms_ingest.revisions import SealedRevision, sealed_revision
from dms_ingest.views import downloads
from nexarch.db import Connection
from support.documents import add_document
from support.fetching import content_path, fetch, object_file
from support.ingest import Ingest, Person, a_pdf, sign_in_another, tenant_database
from support.services import CoreApi, owner_database

pytestmark = pytest.mark.database

SEGMENT = 262_144  # of an object; 32 bytes less of plaintext


async def test_a_download_is_what_was_uploaded_whatever_its_size(ingest: Ingest, editor: Person) -> None:
    for size in [15, SEGMENT - 32, SEGMENT - 31, 3_000_001]:
        content = a_pdf(size)
        document = await ingest.upload(editor, content)

        answer = await fetch(ingest, editor, content_path(document))

        assert (answer.status, answer.body) == (200, content)
        assert answer.headers["Content-Length"] == str(size)


async def test_a_download_says_what_it_is_and_runs_nothing(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content, filename="Prüfbericht №7.pdf")

    answer = await fetch(ingest, editor, content_path(document))

    assert answer.headers["Content-Type"] == "application/pdf"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "private, no-cache"
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="Prufbericht No7.pdf"; filename*=')
    assert unquote(disposition.partition("UTF-8''")[2]) == "Prüfbericht №7.pdf"


async def test_each_revision_is_downloaded_by_its_number(ingest: Ingest, editor: Person) -> None:
    first, second = a_pdf(100), a_pdf(200)
    document = await ingest.upload(editor, first)
    await ingest.upload(editor, second, document_id=document["id"])
    path = f"/v1/documents/{document['id']}"

    assert (await fetch(ingest, editor, f"{path}/content")).body == second
    assert (await fetch(ingest, editor, f"{path}/revisions/1/content")).body == first
    assert (await fetch(ingest, editor, f"{path}/revisions/2/content")).body == second
    for number in ["0", "3", "-1", "1.0", "x", "٢", "99999999999999999999", "%00"]:
        assert (await fetch(ingest, editor, f"{path}/revisions/{number}/content")).status == 404, number


async def test_head_tells_the_size_without_opening_anything(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    object_file(ingest, editor, document).unlink()

    answer = await fetch(ingest, editor, content_path(document), {"Range": "bytes=0-1"}, method="HEAD")

    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "100", b"")


async def test_a_missing_object_or_key_is_a_clear_problem(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))

    async with owner_database(core_api, editor.tenant) as conn:
        await conn.execute("INSERT INTO kek_versions (version) VALUES (99)")
        await conn.execute("UPDATE file_revisions SET kek_version = 99")
        no_key = await fetch(ingest, editor, content_path(document))
        await conn.execute("UPDATE file_revisions SET kek_version = 1")
    object_file(ingest, editor, document).unlink()
    no_object = await fetch(ingest, editor, content_path(document))

    assert (no_key.status, no_object.status) == (500, 500)
    assert b"/problems/key-missing" in no_key.body
    assert b"/problems/object-missing" in no_object.body


async def test_a_download_that_meets_a_removal_for_good_finds_nothing(
    core_api: CoreApi, ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    admin = await sign_in_another(core_api, editor.tenant, email="admin@example.org", role="admin")
    read = sealed_revision

    async def read_and_lose(conn: Connection, document_id: UUID, number: int | None) -> SealedRevision:
        """The row is read; before the object is opened, somebody else removes both."""
        revision = await read(conn, document_id, number)
        monkeypatch.setattr(downloads, "sealed_revision", read)
        await ingest.call(admin, "DELETE", f"/v1/documents/{document_id}")
        await ingest.call(admin, "POST", f"/v1/documents/{document_id}/purge")
        return revision

    monkeypatch.setattr(downloads, "sealed_revision", read_and_lose)

    answer = await fetch(ingest, editor, content_path(document))

    assert answer.status == 404
    assert b"/problems/revision-not-found" in answer.body


async def test_head_of_a_text_has_no_body(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    async with tenant_database(core_api, editor) as conn:
        document_id = await add_document(conn, editor.tenant.user_id, text="a text")
    url = urlsplit(ingest.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)

    writer.write(f"HEAD /v1/documents/{document_id}/text HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode())
    writer.write(f"Authorization: Bearer {editor.token}\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""
