"""tus 1.0 at /files/, header by header: what the protocol demands, and what servers are known to get wrong."""

import base64
import hashlib
import os
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from uuid import UUID

import pytest

from support.ingest import (
    PDF,
    Ingest,
    Person,
    ingest_settings,
    run_ingest,
    sign_in,
    sign_in_another,
    tenant_database,
)
from support.raw_line import begin
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION, Answer, Tus, metadata

pytestmark = pytest.mark.database


@pytest.fixture
def tus(ingest: Ingest, editor: Person) -> Tus:
    return Tus(ingest, editor)


def a_pdf(size: int) -> bytes:
    return PDF + os.urandom(size - len(PDF))


async def in_pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size):
        yield content[at : at + size]


async def document_of(tus: Tus, document_id: str | None) -> tuple[str, int, str]:
    """Name, size and digest of a document, and its bytes are those."""
    _, document = await tus.ingest.call(tus.person, "GET", f"/v1/documents/{document_id}")
    url = f"{tus.ingest.url}/v1/documents/{document_id}/content"
    async with tus.ingest.session.get(url, headers=tus.person.headers) as response:
        content = await response.read()
    revision = document["current_revision"]
    assert hashlib.sha256(content).hexdigest() == revision["sha256"]
    return document["name"], revision["size"], revision["sha256"]


async def number_of_documents(tus: Tus) -> int:
    _, page = await tus.ingest.call(tus.person, "GET", "/v1/documents")
    return len(page["items"])


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


# --- creation


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
    announced = await create(
        tus, Upload_Length="100", **metadata(filename="a.pdf", sha256=hashlib.sha256(content).hexdigest())
    )

    for answer in (patched, announced):
        assert (answer.status, answer.problem["type"]) == (422, "/problems/duplicate-upload")
        assert (answer.problem["document_id"], answer.problem["revision"]) == (document_id, 1)
    assert head.status == 422
    assert await number_of_documents(tus) == 1


async def test_bytes_that_the_disk_lost_are_asked_for_again(tus: Tus) -> None:
    content = a_pdf(1_000_000)
    path = await tus.create(len(content))
    await tus.ingest.put(tus.person, path.rpartition("/")[2], content)
    os.truncate(tus.ingest.settings.staging_dir / tus.person.tenant.slug / path.rpartition("/")[2], 300_000)

    head = await tus.head(path)
    answer = await tus.patch(path, head.offset, content[head.offset :])

    assert head.status == 200
    assert head.offset <= 300_000
    assert head.document_id is None
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


# --- expiration


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
    assert (first - aged).days == (moved - aged).days == 6
    assert created.headers["Upload-Expires"].endswith(" GMT")


# --- checksum


def sha(algorithm: str, data: bytes) -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
async def test_a_chunk_with_a_wrong_checksum_is_460_and_dropped(tus: Tus, algorithm: str) -> None:
    content = a_pdf(3000)
    path = await tus.create(len(content))
    first = await tus.patch(path, 0, content[:1000], Upload_Checksum=sha(algorithm, content[:1000]))

    wrong = await tus.patch(path, 1000, b"x" * 2000, Upload_Checksum=sha(algorithm, content[1000:]))
    head = await tus.head(path)
    right = await tus.patch(path, 1000, content[1000:], Upload_Checksum=sha(algorithm, content[1000:]))

    assert (first.status, first.offset) == (204, 1000)
    assert (wrong.status, wrong.problem["type"]) == (460, "/problems/checksum-mismatch")
    assert head.offset == 1000
    assert (right.status, right.offset) == (204, 3000)
    assert (await document_of(tus, right.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_checksum_that_cannot_be_checked_is_400_and_nothing_is_taken(tus: Tus) -> None:
    path = await tus.create(1000)
    for value in ["md5 AAAA", "sha1", "sha1 !", "sha1 AAAA", "SHA1 2jmj7l5rSw0yVb/vlWAYkK/YBwk="]:
        answer = await tus.patch(path, 0, PDF, Upload_Checksum=value)

        assert (answer.status, answer.problem["header"]) == (400, "Upload-Checksum"), value
        assert (await tus.head(path)).offset == 0


async def test_a_dropped_chunk_leaves_no_bytes_below_those_of_the_json_face(tus: Tus) -> None:
    content = a_pdf(3000)
    path = await tus.create(len(content))
    await tus.ingest.put(tus.person, path.rpartition("/")[2], content[2000:], 2000)

    wrong = await tus.patch(path, 0, b"x" * 3000, Upload_Checksum=sha("sha1", content))
    right = await tus.patch(path, 0, content[:2000])

    assert wrong.status == 460
    assert (right.offset, right.document_id) == (2000, None)


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
