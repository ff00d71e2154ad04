"""Files of parts: tus 1.0's concatenation, and what happens when answers are lost."""

import asyncio
import hashlib
import itertools
import os
from uuid import uuid4

import pytest

from support.ingest import PDF, Ingest, sign_in, sign_in_another, tenant_database
from support.services import CoreApi
from support.tus import VERSION, Answer, Tus, metadata

pytestmark = pytest.mark.database

NAME = metadata(filename="ganz.pdf", filetype="application/pdf")


async def a_part(tus: Tus, content: bytes, *, sent: int | None = None) -> str:
    headers = VERSION | {"Upload-Concat": "partial", "Upload-Length": str(len(content))}
    created = await tus.call("POST", "/files/", headers)
    assert created.status == 201, created.problem
    path = created.headers["Location"]
    answer = await tus.patch(path, 0, content[:sent])
    assert answer.status == 204, answer.problem
    assert answer.document_id is None
    return path


async def join(tus: Tus, *paths: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await tus.call("POST", "/files/", VERSION | NAME | {"Upload-Concat": f"final;{' '.join(paths)}"} | named)


async def content_of(tus: Tus, document_id: str | None) -> bytes:
    url = f"{tus.ingest.url}/v1/documents/{document_id}/content"
    async with tus.ingest.session.get(url, headers=tus.person.headers) as response:
        return await response.read()


async def number_of_documents(tus: Tus) -> int:
    _, page = await tus.ingest.call(tus.person, "GET", "/v1/documents")
    return len(page["items"])


def staged(tus: Tus) -> list[str]:
    return [path.name for path in tus.ingest.settings.staging_dir.rglob("*") if path.is_file()]


async def test_parts_become_one_document_in_the_order_that_is_asked_for(core_api: CoreApi, tus: Tus) -> None:
    content = PDF + os.urandom(2_500_000)
    cuts = [0, 700_000, 700_000, 1_900_001, len(content)]
    pieces = [content[start:stop] for start, stop in itertools.pairwise(cuts)]
    paths = await asyncio.gather(*(a_part(tus, piece) for piece in reversed(pieces)))
    digest = metadata(filename="ganz.pdf", sha256=hashlib.sha256(content).hexdigest())["Upload-Metadata"]

    answer = await join(tus, tus.ingest.url + paths[3], *reversed(paths[:3]), Upload_Metadata=digest)
    head = await tus.head(answer.headers["Location"])

    assert answer.status == 201, answer.problem
    assert await content_of(tus, answer.document_id) == content
    assert (head.offset, head.headers["Upload-Length"]) == (len(content), str(len(content)))
    assert head.headers["Upload-Concat"] == "final;" + " ".join(reversed(paths))
    assert head.document_id == answer.document_id
    assert staged(tus) == []
    async with tenant_database(core_api, tus.person) as conn:
        assert await conn.fetchval("SELECT count(wrapped_key) FROM upload_sessions") == 0, "the keys of staged bytes"


async def test_a_part_says_so_and_is_no_document(tus: Tus) -> None:
    path = await a_part(tus, PDF)

    head = await tus.head(path)
    status, problem = await tus.ingest.complete(tus.person, path.rpartition("/")[2])

    assert (head.offset, head.headers["Upload-Concat"]) == (len(PDF), "partial")
    assert "Upload-Metadata" not in head.headers
    assert (status, problem["type"]) == (409, "/problems/upload-incomplete")
    assert await number_of_documents(tus) == 0


async def test_who_lost_the_answer_asks_again_and_gets_the_same_document(tus: Tus) -> None:
    paths = [await a_part(tus, PDF), await a_part(tus, b"more")]
    first = await join(tus, *paths)

    heads = [await tus.head(path) for path in paths]
    again = await join(tus, *paths)

    assert [(head.status, head.offset) for head in heads] == [(200, len(PDF)), (200, 4)]
    assert (again.status, again.document_id) == (201, first.document_id)
    assert again.headers["Location"] == first.headers["Location"]
    assert await number_of_documents(tus) == 1


async def test_who_asks_again_is_not_told_that_the_file_is_there_already(core_api: CoreApi, ingest: Ingest) -> None:
    tus = Tus(ingest, await sign_in(core_api, role="admin"))
    await ingest.call(tus.person, "PATCH", "/v1/settings", json={"duplicates": "reject"})
    told = metadata(filename="ganz.pdf", sha256=hashlib.sha256(PDF).hexdigest())["Upload-Metadata"]
    path = await a_part(tus, PDF)
    first = await join(tus, path, Upload_Metadata=told)

    again = await join(tus, path, Upload_Metadata=told)

    assert (again.status, again.document_id) == (201, first.document_id)


async def test_eight_who_ask_at_once_get_one_document(tus: Tus) -> None:
    content = PDF + os.urandom(3_000_000)
    paths = [await a_part(tus, content[:1_000_000]), await a_part(tus, content[1_000_000:])]

    answers = await asyncio.gather(*(join(tus, *paths) for _ in range(8)))

    ids = {answer.document_id for answer in answers if answer.status == 201}
    assert {answer.status for answer in answers} <= {201, 409, 423}
    assert len(ids) == 1
    assert await content_of(tus, ids.pop()) == content
    assert await number_of_documents(tus) == 1


async def test_parts_may_come_twice_in_one_file_but_not_in_a_second_one(tus: Tus) -> None:
    paths = [await a_part(tus, PDF), await a_part(tus, b"ab")]

    twice = await join(tus, paths[0], paths[1], paths[1])
    other = await join(tus, paths[0], paths[1])
    late = await tus.patch(paths[1], 2, b"")

    assert await content_of(tus, twice.document_id) == PDF + b"abab"
    assert (other.status, other.problem["type"]) == (409, "/problems/parts-used")
    assert (late.status, late.offset) == (204, 2)


async def test_what_cannot_be_put_together_is_refused(core_api: CoreApi, tus: Tus) -> None:
    part, half = await a_part(tus, PDF), await a_part(tus, b"x" * 100, sent=50)
    whole = await tus.create(len(PDF))
    await tus.patch(whole, 0, PDF)
    theirs = await a_part(
        Tus(tus.ingest, await sign_in_another(core_api, tus.person.tenant, email="b@example.org")), PDF
    )
    id_ = part.rpartition("/")[2]
    cases = [
        (half, 409), (whole, 404), (theirs, 404), (f"/files/{uuid4()}", 404),
        (f"/files/../{id_}", 404), (f"/files/../../files/{id_}", 404), ("/files/%2e%2e", 404), ("/etc/passwd", 404),
        ("http://[", 404), (f"/files/{id_}/../..", 404), (f"/files/{id_}%00", 404), ("", 400),
    ]  # fmt: skip

    for path, status in cases:
        answer = await join(tus, *([part, path] if path else []))
        assert answer.status == status, (path, answer.problem)
    for value in ["final", "final;", "whole", "partial;x", "Final;/files/x"]:
        answer = await tus.call("POST", "/files/", VERSION | NAME | {"Upload-Concat": value})
        assert answer.status == 400, value
    assert (await join(tus, part, Upload_Length="15")).status == 400
    assert await number_of_documents(tus) == 1


async def test_a_final_upload_takes_no_bytes(core_api: CoreApi, tus: Tus) -> None:
    answer = await join(tus, await a_part(tus, PDF))

    patch = await tus.patch(answer.headers["Location"], len(PDF), b"")

    assert (patch.status, patch.problem["type"]) == (403, "/problems/final-upload")


async def test_a_file_for_which_there_is_no_room_is_refused_before_its_parts_are_put_together(
    core_api: CoreApi, ingest: Ingest
) -> None:
    tus = Tus(ingest, await sign_in(core_api, role="admin"))
    paths = [await a_part(tus, PDF), await a_part(tus, PDF)]
    await ingest.call(tus.person, "PATCH", "/v1/settings", json={"quota_bytes": 2 * len(PDF) - 1})

    refused = await join(tus, *paths)
    left = set(staged(tus))
    await ingest.call(tus.person, "PATCH", "/v1/settings", json={"quota_bytes": 2 * len(PDF)})
    taken = await join(tus, *paths)

    assert (refused.status, refused.problem["type"]) == (507, "/problems/quota-exceeded")
    assert left == {path.rpartition("/")[2] for path in paths}
    assert await content_of(tus, taken.document_id) == PDF + PDF


async def test_a_file_of_the_wrong_digest_keeps_its_parts(tus: Tus) -> None:
    path = await a_part(tus, PDF)
    wrong = metadata(filename="a.pdf", sha256="0" * 64)["Upload-Metadata"]

    refused = await join(tus, path, Upload_Metadata=wrong)
    right = await join(tus, path)

    assert (refused.status, refused.problem["type"]) == (422, "/problems/digest-mismatch")
    assert await content_of(tus, right.document_id) == PDF


async def test_parts_are_kept_until_their_file_is_a_document_also_where_the_disk_lost_it_before(tus: Tus) -> None:
    path = await a_part(tus, PDF)
    wrong = metadata(filename="a.pdf", sha256="0" * 64)["Upload-Metadata"]
    await join(tus, path, Upload_Metadata=wrong)
    (final,) = (name for name in staged(tus) if name != path.rpartition("/")[2])
    (staged_file,) = tus.ingest.settings.staging_dir.rglob(final)
    staged_file.write_bytes(bytes(staged_file.stat().st_size))

    lost = await join(tus, path, Upload_Metadata=wrong)
    put_together_again = await join(tus, path, Upload_Metadata=wrong)
    right = await join(tus, path)

    assert (lost.status, lost.problem["type"]) == (409, "/problems/upload-incomplete")
    assert put_together_again.problem["type"] == "/problems/digest-mismatch"
    assert await content_of(tus, right.document_id) == PDF


async def test_a_final_upload_that_is_not_ready_has_no_offset_and_goes_on_when_asked_again(
    core_api: CoreApi, tus: Tus
) -> None:
    content = PDF + os.urandom(500_000)
    paths = [await a_part(tus, content[:200_000]), await a_part(tus, content[200_000:])]
    first = await join(tus, *paths)
    final_id = first.headers["Location"].rpartition("/")[2]
    # As after a crash in the middle: the row is there, a part of the bytes, no document.
    async with tenant_database(core_api, tus.person) as conn:
        await conn.execute("UPDATE upload_sessions SET concat_into = NULL")
        await conn.execute(
            """UPDATE upload_sessions SET state = 'open', received = '{}', completed_document_id = NULL,
            completed_revision_id = NULL WHERE id = $1""",
            final_id,
        )

    head = await tus.head(first.headers["Location"])
    again = await join(tus, *paths)

    assert head.status == 200
    assert "Upload-Offset" not in head.headers
    assert head.headers["Upload-Length"] == str(len(content))
    assert (again.status, again.problem["type"]) == (409, "/problems/upload-incomplete"), "the parts' bytes are gone"
