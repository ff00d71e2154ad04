"""Upload sessions over HTTP, from the announcement to the document."""

import asyncio
import hashlib
import itertools
import os
import random
from pathlib import Path

import pytest

from nexarch.crypto.envelope import unwrap_dek
from nexarch.crypto.layout import object_aad
from nexarch.objects import open_object
from nexarch.storage import open_storage
from support.ingest import (
    PDF,
    Ingest,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    sign_in,
    sign_in_another,
    staged_file,
    stored_files,
    stored_folder,
    tenant_database,
)
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database


async def test_a_file_becomes_a_document_with_its_job_and_its_usage(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    content = a_pdf(3_000_000)

    document = await ingest.upload(editor, content, filename="Prüfbericht №7.pdf")

    revision = document["current_revision"]
    assert document["name"] == "Prüfbericht №7.pdf"
    assert document["processing_state"] == "queued"
    assert (revision["number"], revision["size"]) == (1, len(content))
    assert revision["sha256"] == hashlib.sha256(content).hexdigest()
    async with tenant_database(core_api, editor) as conn:
        job = await conn.fetchrow("SELECT job_type, payload, status, traceparent FROM processing_jobs")
    assert job is not None
    assert (job["job_type"], job["status"]) == ("extract_text", "pending")
    assert job["payload"] == {"document_id": document["id"], "revision_id": revision["id"]}
    assert job["traceparent"] is not None
    await eventually(lambda: usage_is(core_api, editor, len(content)))


async def usage_is(core: CoreApi, person: Person, size: int) -> bool:
    _, usage = await core.call("GET", "/v1/usage")
    values = [row["value"] for row in usage["items"] if row["tenant_slug"] == person.tenant.slug]
    return values == [size]


async def test_the_object_opens_to_the_bytes_sent_with_the_keys_of_its_row_only(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    content = a_pdf(700_001)

    document = await ingest.upload(editor, content)

    async with tenant_database(core_api, editor) as conn:
        row = await conn.fetchrow("SELECT document_id, storage_key FROM file_revisions")
    assert row is not None
    assert await read_back(core_api, ingest, editor) == content
    assert str(row["document_id"]) == document["id"]
    assert content[:1000] not in (stored_folder(ingest.settings, editor) / row["storage_key"]).read_bytes()


async def read_back(core_api: CoreApi, ingest: Ingest, person: Person) -> bytes:
    """What the tenant's only object opens to, with the keys and ids of its row."""
    async with tenant_database(core_api, person) as conn, core_api.client("dms_ingest") as core:
        row = await conn.fetchrow("SELECT * FROM file_revisions")
        kek = (await core.kek(person.tenant.slug)).kek
    assert row is not None
    tenant = person.tenant
    version = row["kek_version"]
    dek = unwrap_dek(kek, row["wrapped_dek"], tenant_id=tenant.id, revision_id=row["id"], kek_version=version)
    aad = object_aad(tenant.id, row["document_id"], row["id"])
    key, size = row["storage_key"], row["size_bytes"]
    async with (
        open_storage(ingest.settings) as storage,
        open_object(storage, tenant.slug, key, dek=dek, aad=aad, plaintext_size=size) as chunks,
    ):
        return b"".join([bytes(chunk) async for chunk in chunks])


async def test_chunks_may_come_in_any_order_and_again(ingest: Ingest, editor: Person) -> None:
    chance = random.Random(7)
    content = a_pdf(5_000_000)
    cuts = sorted({0, len(content), *(chance.randrange(len(content)) for _ in range(12))})
    pieces = list(itertools.pairwise(cuts))
    plan = pieces + chance.sample(pieces, 5) + [(cuts[2] - 1000, cuts[4] + 1000)]
    chance.shuffle(plan)
    upload_id = await ingest.open_upload(editor, len(content), sha256=hashlib.sha256(content).hexdigest())
    came: set[int] = set()

    for start, end in plan:
        status, upload = await ingest.put(editor, upload_id, content[start:end], start)

        came |= {i for i, piece in enumerate(pieces) if start <= piece[0] and piece[1] <= end}
        assert status == 200
        assert upload["received_bytes"] >= sum(pieces[i][1] - pieces[i][0] for i in came)
    status, document = await ingest.complete(editor, upload_id)

    assert status == 200
    assert document["current_revision"]["sha256"] == hashlib.sha256(content).hexdigest()


async def test_pieces_of_different_bytes_at_one_place_make_one_file_that_is_stored_as_it_was_hashed(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    size = 4_000_000
    first, second = (PDF + letter * (size - len(PDF)) for letter in (b"a", b"b"))
    upload_id = await ingest.open_upload(editor, size)

    await asyncio.gather(ingest.put(editor, upload_id, first), ingest.put(editor, upload_id, second))
    _, document = await ingest.complete(editor, upload_id)

    content = await read_back(core_api, ingest, editor)
    assert document["current_revision"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert set(content[len(PDF) :]) <= {ord("a"), ord("b")}


async def test_a_hole_is_refused_with_the_missing_ranges(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 1000)
    await ingest.put(editor, upload_id, b"x" * 100, 200)
    await ingest.put(editor, upload_id, b"x" * 100, 900)

    status, problem = await ingest.complete(editor, upload_id)

    missing = [{"start": 0, "end": 200}, {"start": 300, "end": 900}]
    _, upload = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")
    assert (status, problem["type"]) == (409, "/problems/upload-incomplete")
    assert problem["missing"] == upload["missing"] == missing
    assert upload["received"] == [{"start": 200, "end": 300}, {"start": 900, "end": 1000}]
    assert (upload["state"], upload["received_bytes"]) == ("open", 200)


async def test_a_wrong_digest_is_refused_and_the_right_bytes_may_follow(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(2_500_000)
    damaged = content[:-1] + bytes([content[-1] ^ 1])
    upload_id = await ingest.open_upload(editor, len(content), sha256=hashlib.sha256(content).hexdigest().upper())
    await ingest.put(editor, upload_id, damaged)

    refused, problem = await ingest.complete(editor, upload_id)
    await ingest.put(editor, upload_id, content[-1:], len(content) - 1)
    status, _ = await ingest.complete(editor, upload_id)

    assert (refused, problem["type"]) == (422, "/problems/digest-mismatch")
    assert problem["received"] == hashlib.sha256(damaged).hexdigest()
    assert status == 200
    assert len(stored_files(ingest.settings, editor)) == 1


async def test_an_upload_to_a_document_makes_its_next_revision_however_many_come_at_once(
    ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)

    answers = await asyncio.gather(
        *(ingest.upload(editor, PDF + bytes([i]), document_id=document["id"]) for i in range(5))
    )

    assert {answer["id"] for answer in answers} == {document["id"]}
    status, now = await ingest.call(editor, "GET", f"/v1/uploads/{await ingest.open_upload(editor, 1)}")
    assert (status, now["document_id"]) == (200, None)
    assert max(answer["current_revision"]["number"] for answer in answers) == 6


async def test_twenty_uploads_at_once_go_through_small_pools(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, tenant_pool_size=2)
    contents = [a_pdf(1_500_000 + i) for i in range(20)]

    async with run_ingest(settings) as ingest:
        documents = await asyncio.gather(*(ingest.upload(editor, content) for content in contents))

    digests = [document["current_revision"]["sha256"] for document in documents]
    assert digests == [hashlib.sha256(content).hexdigest() for content in contents]
    assert len({document["id"] for document in documents}) == 20


def staged(ingest: Ingest, person: Person) -> list[str]:
    return [file.name for file in (ingest.settings.staging_dir / person.tenant.slug).iterdir()]


async def test_a_complete_upload_takes_no_bytes_and_leaves_none_staged(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.whole_upload(editor, PDF)
    _, document = await ingest.complete(editor, upload_id)

    put, problem = await ingest.put(editor, upload_id, PDF)
    deleted, _ = await ingest.call(editor, "DELETE", f"/v1/uploads/{upload_id}")
    _, upload = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")

    assert (put, problem["type"]) == (409, "/problems/upload-closed")
    assert deleted == 409
    assert upload["state"] == "complete"
    assert (upload["document_id"], upload["revision_id"]) == (document["id"], document["current_revision"]["id"])
    assert staged(ingest, editor) == []


def routes_of(upload_id: str) -> list[tuple[str, str]]:
    path = f"/v1/uploads/{upload_id}"
    return [("GET", path), ("PUT", f"{path}/content"), ("POST", f"{path}/complete"), ("DELETE", path)]


async def test_an_upload_that_was_ended_is_gone_with_its_bytes(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 100)
    await ingest.put(editor, upload_id, b"x" * 50)
    assert staged(ingest, editor) == [upload_id]

    status, _ = await ingest.call(editor, "DELETE", f"/v1/uploads/{upload_id}")

    assert status == 204
    assert staged(ingest, editor) == []
    for method, path in routes_of(upload_id):
        status, problem = await ingest.call(editor, method, path)
        assert (status, problem["type"]) == (404, "/problems/upload-not-found"), (method, path)


async def test_an_upload_of_somebody_else_or_another_tenant_is_not_there(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    upload_id = await ingest.open_upload(editor, 100)
    strangers = [
        await sign_in(core_api, role="admin"),
        await sign_in_another(core_api, editor.tenant, email="admin@example.org", role="admin"),
    ]

    for stranger in strangers:
        for method, path in routes_of(upload_id):
            status, problem = await ingest.call(stranger, method, path, data=b"x" if method == "PUT" else None)
            assert (status, problem["type"]) == (404, "/problems/upload-not-found"), (method, path)

    _, upload = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")
    assert upload["received_bytes"] == 0


async def test_bytes_that_the_disk_lost_are_asked_for_again(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(1000)
    upload_id = await ingest.whole_upload(editor, content)
    os.truncate(staged_file(ingest.settings, editor, upload_id), 400)

    lost, problem = await ingest.complete(editor, upload_id)
    await ingest.put(editor, upload_id, content)
    status, _ = await ingest.complete(editor, upload_id)

    assert (lost, problem["missing"]) == (409, [{"start": 0, "end": 1000}])
    assert status == 200
