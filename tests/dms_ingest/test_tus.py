"""tus 1.0 at /files/, header by header: what the protocol demands, and what servers are known to get wrong."""

import errno
import hashlib
import os
from uuid import UUID

import pytest

from dms_ingest.staging import Staging
from support.ingest import PDF, Ingest, a_pdf, sign_in, sign_in_another, staged_file, tenant_database
from support.raw_line import begin
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION, Tus, document_of, in_pieces, metadata, number_of_documents

pytestmark = pytest.mark.database


# --- core


async def test_options_tells_what_is_spoken_and_asks_for_no_token(ingest: Ingest) -> None:
    async with ingest.session.options(f"{ingest.url}/files/") as answer:
        headers = answer.headers

    assert answer.status == 204
    assert headers["Tus-Version"] == headers["Tus-Resumable"] == "1.0.0"
    assert headers["Tus-Max-Size"] == str(ingest.settings.max_upload_bytes)
    assert headers["Tus-Checksum-Algorithm"] == "sha1,sha256"
    assert set(headers["Tus-Extension"].split(",")) == {
        "creation", "creation-with-upload", "creation-defer-length", "expiration", "checksum", "termination",
        "concatenation",
    }  # fmt: skip


async def test_a_file_in_three_chunks_becomes_a_document_with_the_last_one(tus: Tus) -> None:
    content = a_pdf(300_001)
    path = await tus.create(len(content), filename="Prüfbericht №7.pdf")
    assert path.startswith("/files/")
    document_id = None
    for start in range(0, len(content), 100_000):
        assert (await tus.head(path)).offset == start
        chunk = content[start : start + 100_000]

        answer = await tus.patch(path, start, chunk)

        assert (answer.status, answer.offset) == (204, start + len(chunk)), answer.problem
        assert answer.headers["Tus-Resumable"] == "1.0.0"
        assert document_id is None
        document_id = answer.document_id

    digest = hashlib.sha256(content).hexdigest()
    assert await document_of(tus, document_id) == ("Prüfbericht №7.pdf", len(content), digest)


async def test_head_tells_offset_length_and_metadata_and_is_never_cached(tus: Tus) -> None:
    path = await tus.create(1000, filename="文書.pdf", relativePath="null")
    await tus.patch(path, 0, PDF)

    answer = await tus.head(path)

    assert answer.status == 200
    assert (answer.offset, answer.headers["Upload-Length"]) == (len(PDF), "1000")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Upload-Metadata"] == metadata(
        filename="文書.pdf", filetype="application/pdf", relativePath="null"
    )["Upload-Metadata"]  # fmt: skip
    assert "Upload-Concat" not in answer.headers
    assert "Upload-Defer-Length" not in answer.headers


async def test_another_version_is_412_with_the_versions_that_are_spoken(tus: Tus) -> None:
    path = await tus.create(1000)
    chunk = {"Content-Type": CHUNK_TYPE, "Upload-Offset": "0"}
    length = {"Upload-Length": "1"} | metadata(filename="a.pdf")
    calls = [("HEAD", path, {}, None), ("PATCH", path, chunk, PDF), ("DELETE", path, {}, None),
             ("POST", "/files/", length, None)]  # fmt: skip
    for version in ({}, {"Tus-Resumable": "0.2.2"}, {"Tus-Resumable": "1.0"}, {"Tus-Resumable": ""}):
        for method, where, headers, data in calls:
            answer = await tus.call(method, where, version | headers, data)

            assert (answer.status, answer.headers["Tus-Version"]) == (412, "1.0.0"), (version, method)
            assert method == "HEAD" or answer.problem["type"] == "/problems/tus-version-unknown"

    assert (await tus.head(path)).offset == 0


async def test_another_offset_is_409_with_the_right_one_and_changes_nothing(tus: Tus) -> None:
    path = await tus.create(1000)
    await tus.patch(path, 0, b"x" * 100)
    for offset in [0, 99, 101, 1000, 10**15]:
        answer = await tus.patch(path, offset, b"y" * 10)

        assert (answer.status, answer.offset) == (409, 100), offset
        assert (answer.problem["type"], answer.problem["offset"]) == ("/problems/offset-conflict", 100)
        assert (await tus.head(path)).offset == 100


async def test_a_409_reaches_a_client_that_sends_100_mb(tus: Tus) -> None:
    path = await tus.create(200 << 20)

    answer = await tus.patch(path, 5, bytes(100 << 20))

    assert (answer.status, answer.offset) == (409, 0)


CHUNKS_REFUSED: list[tuple[dict[str, str], int, str]] = [
    ({"Upload-Offset": "0"}, 415, "unsupported-type"),
    ({"Upload-Offset": "0", "Content-Type": "application/octet-stream"}, 415, "unsupported-type"),
    ({"Upload-Offset": "0", "Content-Type": CHUNK_TYPE, "Content-Encoding": "gzip"}, 415, "unsupported-type"),
    ({"Content-Type": CHUNK_TYPE}, 400, "tus-header-refused"),
    ({"Upload-Offset": "-1", "Content-Type": CHUNK_TYPE}, 400, "tus-header-refused"),
    ({"Upload-Offset": "0x0", "Content-Type": CHUNK_TYPE}, 400, "tus-header-refused"),
    ({"Upload-Offset": "9" * 19, "Content-Type": CHUNK_TYPE}, 400, "tus-header-refused"),
    ({"Upload-Offset": "0", "Upload-Length": "999", "Content-Type": CHUNK_TYPE}, 422, "length-fixed"),
]


async def test_a_chunk_without_its_headers_is_refused(tus: Tus) -> None:
    path = await tus.create(1000)
    for headers, status, code in CHUNKS_REFUSED:
        answer = await tus.call("PATCH", path, VERSION | headers, PDF)

        assert (answer.status, answer.problem["type"]) == (status, f"/problems/{code}"), headers
        assert (await tus.head(path)).offset == 0


async def test_more_bytes_than_the_length_are_refused_before_the_first_or_at_the_end(tus: Tus) -> None:
    path = await tus.create(5000)

    with_length = await tus.patch(path, 0, b"x" * 5001)
    before = (await tus.head(path)).offset
    chunked = await tus.patch(path, 0, in_pieces(PDF + b"x" * 100_000))

    assert (with_length.status, with_length.problem["type"]) == (413, "/problems/beyond-announced-size")
    assert before == 0
    assert chunked.status == 413
    answer = await tus.head(path)
    assert answer.offset == 5000
    assert (await document_of(tus, answer.document_id))[1] == 5000


async def test_a_chunk_may_come_without_its_length(tus: Tus) -> None:
    content = a_pdf(50_000)
    path = await tus.create(len(content))

    answer = await tus.patch(path, 0, in_pieces(content))

    assert (answer.status, answer.offset) == (204, len(content))
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_complete_upload_answers_with_its_document_again_and_takes_nothing(tus: Tus) -> None:
    content = a_pdf(1000)
    path = await tus.create(len(content))
    document_id = (await tus.patch(path, 0, content)).document_id

    head = await tus.head(path)
    empty = await tus.patch(path, 1000, b"")
    beyond = await tus.patch(path, 1000, b"x")
    again = await tus.patch(path, 0, content)

    assert document_id is not None
    assert (head.status, head.offset, head.document_id) == (200, 1000, document_id)
    assert "Upload-Expires" not in head.headers
    assert (empty.status, empty.offset, empty.document_id) == (204, 1000, document_id)
    assert beyond.status == 413
    assert (again.status, again.offset) == (409, 1000)
    assert await number_of_documents(tus) == 1


async def test_a_complete_upload_takes_nothing_also_while_its_staged_file_is_still_there(
    tus: Tus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_staging: Staging, _tenant: str, _session_id: UUID) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Staging, "remove", fail)
    content = a_pdf(1000)
    path = await tus.create(len(content))
    await tus.patch(path, 0, content[:500])
    document_id = (await tus.patch(path, 500, content[500:])).document_id

    empty = await tus.patch(path, 1000, b"")

    assert document_id is not None
    assert (empty.status, empty.offset, empty.document_id) == (204, 1000, document_id)


async def test_clients_that_cannot_send_patch_say_so(tus: Tus) -> None:
    content = a_pdf(1000)
    path = await tus.create(len(content))
    chunk = VERSION | {"Upload-Offset": "0", "Content-Type": CHUNK_TYPE, "X-HTTP-Method-Override": "PATCH"}

    nothing = await tus.call("POST", path, VERSION)
    head = await tus.call("POST", path, VERSION | {"X-HTTP-Method-Override": "HEAD"})
    patch = await tus.call("POST", path, chunk, content)
    end = await tus.call("POST", path, VERSION | {"X-HTTP-Method-Override": "DELETE"})

    assert (nothing.status, nothing.problem["type"]) == (405, "/problems/method-not-allowed")
    assert head.offset == 0
    assert (patch.status, patch.offset) == (204, 1000)
    assert end.status == 204


# --- whose upload it is


TRAVERSALS = [
    "/files/../../etc/passwd",
    "/files/..",
    "/files/%2e%2e/%2e%2e/etc/passwd",
    "/files/..%2f..%2fetc%2fpasswd",
    "/files/%252e%252e%252fetc",
    "/files/..%5c..%5cwindows",
    "/files/{id}%2f..",
    "/files/{id}/../../v1",
    "/files/%00",
    "/files/" + "a" * 4000,
]


async def test_an_id_that_leads_elsewhere_is_the_id_of_nothing(tus: Tus) -> None:
    path = await tus.create(1000)
    chunk = [f"Content-Type: {CHUNK_TYPE}", "Upload-Offset: 0", "Content-Length: 0"]
    before = sorted(tus.ingest.settings.staging_dir.rglob("*"))
    for template in TRAVERSALS:
        hostile = template.replace("{id}", path.rpartition("/")[2])
        for method, headers in [("HEAD", []), ("PATCH", chunk), ("DELETE", [])]:
            line = await begin(tus.ingest, tus.person, method, hostile, "Tus-Resumable: 1.0.0", *headers)

            assert await line.status() == 404, (method, hostile)
            await line.close()

    assert sorted(tus.ingest.settings.staging_dir.rglob("*")) == before
    assert (await tus.head(path)).offset == 0


async def test_an_upload_is_nobody_elses(core_api: CoreApi, tus: Tus) -> None:
    path = await tus.create(1000)
    colleague = await sign_in_another(core_api, tus.person.tenant, email="zweite@example.org")
    strangers = [Tus(tus.ingest, colleague), Tus(tus.ingest, await sign_in(core_api))]

    for stranger in strangers:
        assert (await stranger.head(path)).status == 404
        assert (await stranger.patch(path, 0, PDF)).status == 404
        assert (await stranger.call("DELETE", path, VERSION)).status == 404

    assert (await tus.head(path)).offset == 0


async def test_without_a_token_nothing_is_said(ingest: Ingest, tus: Tus) -> None:
    path = await tus.create(1000)

    async with ingest.session.head(ingest.url + path, headers=VERSION) as answer:
        assert answer.status == 401
        assert answer.headers["Tus-Resumable"] == "1.0.0"
        assert "Upload-Offset" not in answer.headers


# --- completion


async def test_a_file_with_another_digest_than_announced_is_no_document(tus: Tus) -> None:
    path = await tus.create(100, sha256="0" * 64)

    answer = await tus.patch(path, 0, a_pdf(100))
    head = await tus.head(path)

    assert (answer.status, answer.problem["type"]) == (422, "/problems/digest-mismatch")
    assert head.status == 422
    assert await number_of_documents(tus) == 0


async def test_a_file_that_a_document_has_already_is_refused_so_that_no_client_sends_it_again(
    core_api: CoreApi, tus: Tus
) -> None:
    content = a_pdf(100)
    document_id = (await tus.patch(await tus.create(100), 0, content)).document_id
    async with tenant_database(core_api, tus.person) as conn:
        await conn.execute("UPDATE tenant_settings SET duplicates = 'reject'")
    path = await tus.create(100)

    patched = await tus.patch(path, 0, content)
    head = await tus.head(path)
    named = metadata(filename="a.pdf", sha256=hashlib.sha256(content).hexdigest())
    announced = await tus.call("POST", "/files/", VERSION | {"Upload-Length": "100"} | named)

    for answer in (patched, announced):
        assert (answer.status, answer.problem["type"]) == (422, "/problems/duplicate-upload")
        assert (answer.problem["document_id"], answer.problem["revision"]) == (document_id, 1)
    assert head.status == 422
    assert await number_of_documents(tus) == 1


async def test_bytes_that_the_disk_lost_are_asked_for_again(tus: Tus) -> None:
    content = a_pdf(1_000_000)
    path = await tus.create(len(content))
    await tus.ingest.put(tus.person, path.rpartition("/")[2], content)
    os.truncate(staged_file(tus.ingest.settings, tus.person, path.rpartition("/")[2]), 300_000)

    head = await tus.head(path)
    answer = await tus.patch(path, head.offset, content[head.offset :])

    assert head.status == 200
    assert head.offset <= 300_000
    assert head.document_id is None
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_last_chunk_before_which_the_disk_lost_bytes_is_told_where_to_go_on(tus: Tus) -> None:
    content = a_pdf(1_000_000)
    path = await tus.create(len(content))
    await tus.patch(path, 0, content[:900_000])
    os.truncate(staged_file(tus.ingest.settings, tus.person, path.rpartition("/")[2]), 300_000)

    last = await tus.patch(path, 900_000, content[900_000:])
    again = await tus.patch(path, last.offset, content[last.offset :])

    assert (last.status, last.document_id) == (409, None), "a 204 would say that what came before is kept"
    assert last.offset <= 300_000
    assert (await document_of(tus, again.document_id))[2] == hashlib.sha256(content).hexdigest()


# --- termination


async def test_an_ended_upload_is_gone_with_its_bytes(tus: Tus) -> None:
    path = await tus.create(1000)
    await tus.patch(path, 0, PDF)

    ended = await tus.call("DELETE", path, VERSION)

    assert ended.status == 204
    assert (await tus.head(path)).status == 404
    assert (await tus.patch(path, len(PDF), b"x")).status == 404
    assert (await tus.call("DELETE", path, VERSION)).status == 404
    assert [path for path in tus.ingest.settings.staging_dir.rglob("*") if path.is_file()] == []


async def test_ending_a_complete_upload_forgets_it_and_keeps_the_document(tus: Tus) -> None:
    content = a_pdf(1000)
    path = await tus.create(len(content))
    document_id = (await tus.patch(path, 0, content)).document_id

    ended = await tus.call("DELETE", path, VERSION)

    assert ended.status == 204
    assert (await tus.head(path)).status == 404
    assert (await document_of(tus, document_id))[1] == 1000


# --- both faces


async def test_what_the_json_face_brought_counts_once_the_gap_is_closed(tus: Tus) -> None:
    content = a_pdf(3000)
    path = await tus.create(len(content))
    upload_id = path.rpartition("/")[2]
    await tus.ingest.put(tus.person, upload_id, content[1000:], 1000)
    before = (await tus.head(path)).offset

    answer = await tus.patch(path, 0, content[:1000])

    assert before == 0
    assert (answer.status, answer.offset) == (204, 3000)
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()
    assert await tus.ingest.complete(tus.person, upload_id) == (200, (await tus.ingest.call(
        tus.person, "GET", f"/v1/documents/{answer.document_id}"))[1])  # fmt: skip
