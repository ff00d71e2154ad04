"""Creating uploads by tus: what is announced, what may come with it or later, and how long the upload lives."""

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from uuid import UUID

import pytest

from support.ingest import (
    PDF,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    sign_in,
    sign_in_another,
    tenant_database,
)
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION, Answer, Tus, document_of, in_pieces, metadata, number_of_documents

pytestmark = pytest.mark.database


async def create(tus: Tus, data: bytes | AsyncIterator[bytes] | None = None, /, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await tus.call("POST", "/files/", VERSION | named, data)


NAME = metadata(filename="a.pdf", filetype="application/pdf")["Upload-Metadata"]


def one_byte(**pairs: str) -> dict[str, str]:
    return {"Upload_Length": "1", "Upload_Metadata": metadata(**pairs)["Upload-Metadata"]}


CREATIONS_REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({}, 400, "tus-header-refused"),
    ({"Upload_Length": "1", "Upload_Defer_Length": "1"}, 400, "tus-header-refused"),
    ({"Upload_Defer_Length": "2"}, 400, "tus-header-refused"),
    ({"Upload_Length": "-1"}, 400, "tus-header-refused"),
    ({"Upload_Length": "1.5"}, 400, "tus-header-refused"),
    ({"Upload_Length": str(10**17)}, 413, "file-too-large"),
    ({"Upload_Length": "1", "Upload_Metadata": ""}, 422, "invalid-body"),
    ({"Upload_Length": "1", "Upload_Metadata": "filename"}, 422, "invalid-body"),
    ({"Upload_Length": "1", "Upload_Metadata": "filename a.pdf"}, 400, "tus-header-refused"),
    ({"Upload_Length": "1", "Upload_Metadata": f"{NAME},{NAME}"}, 400, "tus-header-refused"),
    ({"Upload_Length": "1", "Upload_Metadata": f"{NAME},,"}, 400, "tus-header-refused"),
    ({"Upload_Length": "1", "Upload_Metadata": "filename /w=="}, 400, "tus-header-refused"),
    ({"Upload_Length": "1", "Upload_Metadata": f"{NAME},folder_id YQ=="}, 422, "invalid-body"),
    ({"Upload_Length": "1", "Upload_Metadata": f"{NAME},sha256 YQ=="}, 422, "invalid-body"),
    (one_byte(filename="a", filetype="pdf"), 422, "invalid-body"),
    (one_byte(filename="a", filetype="x/y"), 415, "type-not-allowed"),
    (one_byte(filename="../a.pdf"), 422, "name-refused"),
    (one_byte(filename="a\r\nX-Evil: 1"), 422, "name-refused"),
    (one_byte(filename="字" * 400), 422, "name-refused"),
    (one_byte(filename="a\0b"), 422, "text-not-storable"),
    (one_byte(filename="a.pdf", folder_id=str(UUID(int=1))), 404, "folder-not-found"),
    (one_byte(filename="a.pdf", document_id=str(UUID(int=1))), 404, "document-not-found"),
    (one_byte(filename="a.pdf", document_id="1"), 422, "invalid-body"),
    (one_byte(filename="a.pdf", document_id=str(UUID(int=1)), folder_id=str(UUID(int=1))), 422, "invalid-body"),
]


async def test_a_creation_that_says_nonsense_is_refused(tus: Tus) -> None:
    for headers, status, code in CREATIONS_REFUSED:
        answer = await create(tus, None, **({"Upload_Metadata": NAME} | headers))

        assert (answer.status, answer.problem["type"]) == (status, f"/problems/{code}"), headers
        assert "Location" not in answer.headers


async def test_names_of_all_scripts_arrive(tus: Tus) -> None:
    content = a_pdf(100)
    for name in ["字" * 255, "Ünïcödé \u202e.pdf", "emoji 🗎.pdf", "a" * 251 + ".pdf"]:
        path = await tus.create(len(content), filename=name)

        answer = await tus.patch(path, 0, content)

        assert (await document_of(tus, answer.document_id))[0] == name


async def test_what_javascript_writes_for_nothing_is_no_value_but_in_a_name(tus: Tus) -> None:
    content = a_pdf(100)
    for word in ("undefined", "null", ""):
        fields = dict.fromkeys(("filetype", "folder_id", "document_id", "sha256"), word)
        path = await tus.create(100, filename=word or "x", **fields)

        answer = await tus.patch(path, 0, content)

        assert (await document_of(tus, answer.document_id))[0] == (word or "x")


async def test_metadata_becomes_no_header_but_its_own_written_anew(tus: Tus) -> None:
    hostile = metadata(filename="a.pdf", note="x\r\nSet-Cookie: a=b", empty="")["Upload-Metadata"]

    created = await create(tus, Upload_Length="10", Upload_Metadata=hostile.replace(",", "  ,  "))
    head = await tus.head(created.headers["Location"])

    assert created.status == 201
    assert head.headers["Upload-Metadata"] == hostile.rstrip(" ")
    for answer in (created, head):
        assert not {"set-cookie", "note", "filename"} & {name.lower() for name in answer.headers}


async def test_a_creation_may_bring_the_first_bytes_or_all_of_them(tus: Tus) -> None:
    content = a_pdf(10_000)
    length = {"Upload_Length": "10000", "Upload_Metadata": NAME, "Content_Type": CHUNK_TYPE}

    some = await create(tus, content[:4000], **length)
    rest = await tus.patch(some.headers["Location"], 4000, content[4000:])
    everything = await create(tus, in_pieces(content), **length)

    assert (some.status, some.offset, some.document_id) == (201, 4000, None)
    assert (await document_of(tus, rest.document_id))[1] == 10_000
    assert (everything.status, everything.offset) == (201, 10_000)
    assert (await document_of(tus, everything.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_creation_whose_bytes_are_refused_leaves_nothing(core_api: CoreApi, tus: Tus) -> None:
    length = {"Upload_Length": "10", "Upload_Metadata": NAME}

    of_another_type = await create(tus, b"x" * 10, Content_Type="text/plain", **length)
    too_long = await create(tus, b"x" * 11, Content_Type=CHUNK_TYPE, **length)
    no_pdf = await create(tus, b"x" * 10, Content_Type=CHUNK_TYPE, **length)

    assert (of_another_type.status, too_long.status) == (415, 413)
    assert (no_pdf.status, no_pdf.problem["type"]) == (415, "/problems/content-type-mismatch")
    async with tenant_database(core_api, tus.person) as conn:
        assert await conn.fetch("SELECT FROM upload_sessions WHERE state <> 'aborted'") == []
    assert [path for path in tus.ingest.settings.staging_dir.rglob("*") if path.is_file()] == []


async def test_a_length_may_come_later_but_only_once(tus: Tus) -> None:
    content = a_pdf(3000)
    created = await create(tus, Upload_Defer_Length="1", Upload_Metadata=NAME)
    path = created.headers["Location"]
    await tus.patch(path, 0, content[:1000])
    before = await tus.head(path)

    too_short = await tus.patch(path, 1000, b"", Upload_Length="999")
    told = await tus.patch(path, 1000, content[1000:2000], Upload_Length="3000")
    again = await tus.patch(path, 2000, content[2000:], Upload_Length="3001")
    head = await tus.head(path)
    last = await tus.patch(path, 2000, content[2000:], Upload_Length="3000")

    assert (before.offset, before.headers["Upload-Defer-Length"]) == (1000, "1")
    assert "Upload-Length" not in before.headers
    assert (too_short.status, again.status) == (422, 422)
    assert too_short.problem["type"] == again.problem["type"] == "/problems/length-fixed"
    assert (told.status, told.offset, told.document_id) == (204, 2000, None)
    assert (head.offset, head.headers["Upload-Length"]) == (2000, "3000")
    assert "Upload-Defer-Length" not in head.headers
    assert (await document_of(tus, last.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_length_that_is_told_after_the_last_byte_completes(tus: Tus) -> None:
    path = (await create(tus, Upload_Defer_Length="1", Upload_Metadata=NAME)).headers["Location"]
    sent = await tus.patch(path, 0, PDF)

    told = await tus.patch(path, len(PDF), b"", Upload_Length=str(len(PDF)))

    assert sent.document_id is None
    assert told.document_id is not None


async def test_a_deferred_length_does_not_get_around_the_largest_size(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, max_upload_bytes=5000)) as ingest:
        tus = Tus(ingest, editor)
        path = (await create(tus, Upload_Defer_Length="1", Upload_Metadata=NAME)).headers["Location"]

        told = await tus.patch(path, 0, b"x", Upload_Length="5001")
        with_length = await tus.patch(path, 0, b"x" * 5001)
        chunked = await tus.patch(path, 0, in_pieces(b"x" * 6000))
        head = await tus.head(path)

    assert (told.status, told.problem["type"]) == (413, "/problems/file-too-large")
    assert (with_length.status, chunked.status) == (413, 413)
    assert head.offset == 5000
    assert head.document_id is None
    assert head.headers["Upload-Defer-Length"] == "1"


async def test_an_empty_file_is_refused_by_the_request_that_would_complete_it(core_api: CoreApi, tus: Tus) -> None:
    """Clients send no PATCH for it: what becomes of it is answered to the creation, or where its length is told."""
    at_once = await create(tus, Upload_Length="0", Upload_Metadata=NAME)
    path = (await create(tus, Upload_Defer_Length="1", Upload_Metadata=NAME)).headers["Location"]
    later = await tus.patch(path, 0, b"", Upload_Length="0")

    for answer in (at_once, later):
        assert (answer.status, answer.problem["type"]) == (422, "/problems/nothing-in-file")
        assert "Location" not in answer.headers
    assert (await tus.head(path)).status == 404
    async with tenant_database(core_api, tus.person) as conn:
        assert await conn.fetch("SELECT FROM upload_sessions WHERE state <> 'aborted'") == []


async def test_a_file_goes_into_the_folder_that_the_metadata_name(tus: Tus) -> None:
    _, folder = await tus.ingest.call(tus.person, "POST", "/v1/folders", json={"name": "Akten"})
    content = a_pdf(100)
    path = await tus.create(len(content), folder_id=folder["id"], sha256=hashlib.sha256(content).hexdigest())

    document_id = (await tus.patch(path, 0, content)).document_id

    _, document = await tus.ingest.call(tus.person, "GET", f"/v1/documents/{document_id}")
    assert document["folder_id"] == folder["id"]


async def test_an_upload_says_when_it_ends_and_each_chunk_moves_that(core_api: CoreApi, tus: Tus) -> None:
    created = await create(tus, Upload_Length="1000", Upload_Metadata=NAME)
    path = created.headers["Location"]
    async with tenant_database(core_api, tus.person) as conn:
        await conn.execute(
            "UPDATE upload_sessions SET created_at = now() - interval '6 days', expires_at = now() + interval '1 day'"
        )
    head = await tus.head(path)

    patch = await tus.patch(path, 0, PDF)

    first, aged, moved = (parsedate_to_datetime(a.headers["Upload-Expires"]) for a in (created, head, patch))
    assert abs(first - aged - timedelta(days=6)) < timedelta(minutes=1)  # the header has whole seconds
    assert abs(moved - aged - timedelta(days=6)) < timedelta(minutes=1)
    assert created.headers["Upload-Expires"].endswith(" GMT")


async def test_nobody_revises_a_document_of_another_tenant_or_one_in_the_trash(core_api: CoreApi, tus: Tus) -> None:
    stranger = Tus(tus.ingest, await sign_in(core_api))
    theirs = await tus.ingest.upload(stranger.person, PDF)
    trashed = await tus.ingest.upload(tus.person, PDF)
    await tus.ingest.call(tus.person, "DELETE", f"/v1/documents/{trashed['id']}")

    for document in (theirs, trashed):
        answer = await create(tus, None, **one_byte(filename="a.pdf", document_id=document["id"]))

        assert (answer.status, answer.problem["type"]) == (404, "/problems/document-not-found")
    _, unchanged = await tus.ingest.call(stranger.person, "GET", f"/v1/documents/{theirs['id']}")
    assert unchanged["current_revision"]["number"] == 1


async def test_a_colleague_revises_a_document_but_never_with_somebody_elses_upload(core_api: CoreApi, tus: Tus) -> None:
    document = await tus.ingest.upload(tus.person, PDF)
    colleague = Tus(tus.ingest, await sign_in_another(core_api, tus.person.tenant, email="zweite@example.org"))
    content = a_pdf(1000)
    path = await colleague.create(len(content), document_id=document["id"])

    meddling = await tus.patch(path, 0, content)
    own = await colleague.patch(path, 0, content)

    assert meddling.status == 404
    assert (own.status, own.document_id) == (204, document["id"])


async def test_a_revision_whose_document_is_deleted_meanwhile_becomes_no_document(tus: Tus) -> None:
    document = await tus.ingest.upload(tus.person, PDF)
    content = a_pdf(1000)
    path = await tus.create(len(content), document_id=document["id"])
    await tus.patch(path, 0, content[:500])
    await tus.ingest.call(tus.person, "DELETE", f"/v1/documents/{document['id']}")

    answer = await tus.patch(path, 500, content[500:])

    assert (answer.status, answer.problem["type"]) == (404, "/problems/document-not-found")
    assert await number_of_documents(tus) == 0


async def test_parts_may_become_the_next_revision_of_a_document(tus: Tus) -> None:
    document = await tus.ingest.upload(tus.person, PDF)
    part = await create(tus, None, Upload_Concat="partial", Upload_Length=str(len(PDF)))
    await tus.patch(part.headers["Location"], 0, PDF)
    target = metadata(filename="a.pdf", document_id=document["id"])["Upload-Metadata"]

    answer = await create(tus, None, Upload_Concat=f"final;{part.headers['Location']}", Upload_Metadata=target)

    assert (answer.status, answer.document_id) == (201, document["id"])


async def test_a_document_may_return_to_bytes_of_its_own_and_to_no_others(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as ingest:
        tus = Tus(ingest, await sign_in(core_api, role="admin"))
        await ingest.call(tus.person, "PATCH", "/v1/settings", json={"duplicates": "reject"})
        old, others = a_pdf(1000), a_pdf(1000)
        document = await ingest.upload(tus.person, old)
        await ingest.upload(tus.person, a_pdf(1000), document_id=document["id"])
        await ingest.upload(tus.person, others)

        answers = [
            await create(
                tus,
                None,
                **{"Upload-Length": "1000"},
                **metadata(filename="a.pdf", document_id=document["id"], sha256=hashlib.sha256(content).hexdigest()),
            )
            for content in (old, others)
        ]

    assert [answer.status for answer in answers] == [201, 422]
    assert answers[1].problem["type"] == "/problems/duplicate-upload"
