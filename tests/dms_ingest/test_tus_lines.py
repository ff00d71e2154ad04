"""What lines do to tus uploads: they break, stay half open, come twice at once, and take the last answer with them."""

import asyncio
import base64
import hashlib
import os
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from dms_ingest.staging import Busy, StagedFile, Staging
from support.disk import disk_at
from support.ingest import (
    PDF,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    run_ingest_process,
    sign_in_another,
    tenant_database,
)
from support.raw_line import RawLine, begin
from support.services import CoreApi
from support.tus import CHUNK_TYPE, Tus
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20


async def begin_patch(tus: Tus, path: str, offset: int, size: int, *headers: str) -> RawLine:
    """Send the head of a PATCH that promises so many bytes."""
    wanted = ["Tus-Resumable: 1.0.0", f"Content-Type: {CHUNK_TYPE}", f"Upload-Offset: {offset}"]
    return await begin(tus.ingest, tus.person, "PATCH", path, *wanted, f"Content-Length: {size}", *headers)


async def received(tus: Tus, path: str) -> int:
    """How many bytes are recorded, asked without disturbing anybody."""
    _, upload = await tus.ingest.call(tus.person, "GET", f"/v1/uploads/{path.rpartition('/')[2]}")
    return int(upload["received_bytes"])


async def is_open(tus: Tus, path: str) -> bool:
    """Whether a PATCH holds the upload."""
    status, _ = await tus.ingest.put(tus.person, path.rpartition("/")[2], b"", 0)
    return status == 409


async def test_a_broken_chunk_keeps_what_came_and_the_next_one_goes_on(tus: Tus) -> None:
    content = PDF + os.urandom(6 * MIB)
    path = await tus.create(len(content), sha256=hashlib.sha256(content).hexdigest())
    sent = 0
    for _ in range(3):
        start = (await tus.head(path)).offset
        line = await begin_patch(tus, path, start, len(content) - start)
        await line.send(content[start : start + 2 * MIB])
        sent += 2 * MIB

        await line.close()

        await eventually(partial(offset_passes, tus, path, start))
    offset = (await tus.head(path)).offset
    assert 0.9 * sent <= offset <= sent
    answer = await tus.patch(path, offset, content[offset:])
    assert answer.document_id is not None


async def offset_passes(tus: Tus, path: str, start: int) -> bool:
    return await received(tus, path) > start


@pytest.mark.parametrize("checked", [False, True])
async def test_a_full_disk_is_507_and_the_offset_is_where_the_bytes_on_it_end(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path, checked: bool
) -> None:
    content = a_pdf(8 * MIB)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
    with disk_at(settings.staging_dir) as disk:
        async with run_ingest(settings) as ingest:
            tus = Tus(ingest, editor)
            path = await tus.create(len(content))
            disk.resize(4 * MIB)

            full = await tus.patch(path, 0, content, **({"Upload_Checksum": f"sha256 {checksum}"} if checked else {}))
            offset = (await tus.head(path)).offset
            disk.resize()
            rest = await tus.patch(path, offset, content[offset:])

    assert (full.status, full.problem["type"]) == (507, "/problems/staging-full")
    # A chunk with a checksum counts as a whole or not at all.
    assert offset == 0 if checked else 3 * MIB < offset < 4 * MIB
    assert rest.document_id is not None


@pytest.mark.parametrize("by", ["HEAD", "PATCH", "DELETE"])
async def test_a_half_open_chunk_is_ended_by_the_next_request_within_a_second(tus: Tus, by: str) -> None:
    content = PDF + os.urandom(MIB)
    path = await tus.create(len(content))
    line = await begin_patch(tus, path, 0, len(content))
    await line.send(content[: MIB // 2])
    await eventually(lambda: is_open(tus, path))
    loop = asyncio.get_running_loop()
    began = loop.time()

    if by == "HEAD":
        answer = await tus.head(path)
    elif by == "PATCH":
        answer = await tus.patch(path, 0, content)
    else:
        answer = await tus.call("DELETE", path, {"Tus-Resumable": "1.0.0"})

    took = loop.time() - began
    # What was on the line when it was asked may be in or not, but it is one thing for all.
    assert {"HEAD": {200}, "PATCH": {204, 409}, "DELETE": {204}}[by] >= {answer.status}
    assert took < 1
    assert await line.status() in {404, 409}
    await line.close()
    if by == "HEAD":
        rest = await tus.patch(path, answer.offset, content[answer.offset :])
        assert answer.offset > 0
        assert rest.document_id is not None


async def test_a_half_open_chunk_in_another_process_is_ended_too(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    content = PDF + os.urandom(MIB)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    async with run_ingest_process(settings) as (first, _), run_ingest(settings) as second:
        there, here = Tus(first, editor), Tus(second, editor)
        path = await here.create(len(content))
        line = await begin_patch(there, path, 0, len(content))
        await line.send(content[: MIB // 2])
        await eventually(lambda: is_open(here, path))
        loop = asyncio.get_running_loop()
        began = loop.time()

        head = await here.head(path)

        took = loop.time() - began
        rest = await here.patch(path, head.offset, content[head.offset :])
        assert await line.status() == 409
        await line.close()
    assert head.offset > 0
    assert took < 1
    assert rest.document_id is not None


async def test_two_chunks_at_one_offset_never_mix(tus: Tus) -> None:
    size = 3 * MIB
    contents = {letter: PDF + letter * (size - len(PDF)) for letter in (b"a", b"b", b"c")}
    path = await tus.create(size)

    answers = await asyncio.gather(*(tus.patch(path, 0, content) for content in contents.values()))
    head = await tus.head(path)

    assert [answer.status for answer in answers].count(204) <= 1
    assert {answer.status for answer in answers} <= {204, 409}
    offset = head.offset
    if offset < size:
        head = await tus.patch(path, offset, contents[b"a"][offset:])
    url = f"{tus.ingest.url}/v1/documents/{head.document_id}/content"
    async with tus.ingest.session.get(url, headers=tus.person.headers) as response:
        stored = await response.read()
    assert len(stored) == size
    assert len(set(stored[len(PDF) : offset])) <= 1, "what came before the last request is of one sender"


async def test_whoever_lost_the_answer_to_the_last_chunk_finds_the_document(tus: Tus) -> None:
    content = PDF + os.urandom(100_000)
    path = await tus.create(len(content))
    line = await begin_patch(tus, path, 0, len(content))
    await line.send(content)

    line.reset()

    head = await tus.head(path)
    if head.offset < len(content):  # the reset overtook some of it
        head = await tus.patch(path, head.offset, content[head.offset :])
    assert head.offset == len(content)
    assert head.document_id is not None
    _, page = await tus.ingest.call(tus.person, "GET", "/v1/documents")
    assert [document["id"] for document in page["items"]] == [head.document_id]


async def test_a_document_that_could_not_be_made_is_made_when_somebody_asks(core_api: CoreApi, tus: Tus) -> None:
    """As after a crash between the last byte and the document."""
    content = PDF + os.urandom(100_000)
    path = await tus.create(len(content))
    await tus.ingest.put(tus.person, path.rpartition("/")[2], content)
    async with tenant_database(core_api, tus.person) as conn:
        assert await conn.fetchval("SELECT state FROM upload_sessions") == "open"

    head = await tus.head(path)

    assert (head.status, head.offset) == (200, len(content))
    assert head.document_id is not None


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_chunk_with_a_checksum_that_breaks_off_is_dropped(tus: Tus, how: str) -> None:
    content = PDF + os.urandom(MIB)
    path = await tus.create(len(content))
    line = await begin_patch(tus, path, 0, len(content), "Upload-Checksum: sha1 2jmj7l5rSw0yVb/vlWAYkK/YBwk=")
    await line.send(content[: MIB // 2])
    await eventually(lambda: is_open(tus, path))

    line.reset() if how == "reset" else await line.close()

    assert (await tus.head(path)).offset == 0
    assert (await tus.patch(path, 0, content)).document_id is not None


async def test_what_is_refused_is_refused_before_the_client_sends_its_bytes(tus: Tus) -> None:
    path = await tus.create(1000)
    cases = [
        (begin_patch(tus, path, 5, 10, "Expect: 100-continue"), 409),
        (begin_patch(tus, path, 0, 1001, "Expect: 100-continue"), 413),
        (begin_patch(tus, path, 0, 10, "Expect: 100-continue", "Upload-Checksum: md5 AA=="), 400),
        (begin_patch(tus, path[:-3] + "000", 0, 10, "Expect: 100-continue"), 404),
        (begin(tus.ingest, tus.person, "POST", "/files/", "Tus-Resumable: 1.0.0", f"Content-Type: {CHUNK_TYPE}",
               "Upload-Length: 10", "Content-Length: 11", "Upload-Metadata: filename YS5wZGY=",
               "Expect: 100-continue"), 413),
    ]  # fmt: skip
    for opening, status in cases:
        line = await opening
        assert await line.status() == status
        await line.close()

    line = await begin_patch(tus, path, 0, 10, "Expect: 100-continue")
    assert await line.status() == 100
    await line.reader.readline()
    await line.send(b"0123456789")
    assert await line.status() == 204
    assert (await line.head())["upload-offset"] == "10"
    await line.close()


async def test_an_upload_lives_on_while_bytes_come_on_one_slow_line(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, upload_lifetime_s=2)) as ingest:
        tus = Tus(ingest, editor)
        path = await tus.create(1000)
        line = await begin_patch(tus, path, 0, 1000)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + 3
        async with tenant_database(core_api, editor) as conn:
            while loop.time() < ends_at:
                await line.send(b"x")
                alive = await conn.fetchval("SELECT expires_at > now() FROM upload_sessions")
                assert alive, "the sweep would end it now"
                await asyncio.sleep(0.1)  # the pace of the line
        assert await received(tus, path) > 10
        await line.close()


async def test_a_writer_that_does_not_let_go_is_423(tus: Tus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dms_ingest.receiving._LOCK_TIMEOUT_S", 0.2)
    path = await tus.create(1000)
    file = Staging(tus.ingest.settings.staging_dir).open_alone(tus.person.tenant.slug, UUID(path.rpartition("/")[2]))
    head, patch = await tus.head(path), await tus.patch(path, 0, PDF)
    file.close()

    assert (head.status, patch.status) == (423, 423)
    assert patch.problem["type"] == "/problems/upload-locked"
    assert head.headers["Retry-After"] == "1"
    assert (await tus.patch(path, 0, PDF)).status == 204


async def test_a_chunk_of_somebody_else_never_holds_the_upload(
    core_api: CoreApi, tus: Tus, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = PDF + os.urandom(MIB)
    path = await tus.create(len(content))
    await tus.patch(path, 0, content[:1000])
    colleague = Tus(tus.ingest, await sign_in_another(core_api, tus.person.tenant, email="zweite@example.org"))
    opened, open_file = list[str](), Staging._open

    def open_noted(staging: Staging, tenant: str, session_id: UUID, kind: int, *, make: bool = True) -> StagedFile:
        opened.append(str(session_id))
        return open_file(staging, tenant, session_id, kind, make=make)

    monkeypatch.setattr(Staging, "_open", open_noted)

    statuses = [(await colleague.patch(path, 1000, b"not mine")).status for _ in range(2)]
    opened_by_colleague = list(opened)
    rest = await tus.patch(path, 1000, content[1000:])

    assert (statuses, opened_by_colleague) == ([404, 404], [])
    assert opened, "the owner's chunk opens it"
    assert rest.document_id is not None


@pytest.mark.parametrize("waiting", ["PATCH", "HEAD"])
async def test_who_waits_for_an_upload_that_is_ended_meanwhile_leaves_no_file(
    tus: Tus, monkeypatch: pytest.MonkeyPatch, waiting: str
) -> None:
    content = PDF + os.urandom(1000)
    path = await tus.create(len(content))
    held = Staging(tus.ingest.settings.staging_dir).open_alone(tus.person.tenant.slug, UUID(path.rpartition("/")[2]))
    refused, open_file = list[str](), Staging._open

    def open_noted(staging: Staging, tenant: str, session_id: UUID, kind: int, *, make: bool = True) -> StagedFile:
        try:
            return open_file(staging, tenant, session_id, kind, make=make)
        except Busy:
            refused.append(tenant)
            raise

    async def somebody_waits() -> bool:
        return bool(refused)

    monkeypatch.setattr(Staging, "_open", open_noted)
    request = asyncio.create_task(tus.patch(path, 0, content) if waiting == "PATCH" else tus.head(path))
    await eventually(somebody_waits)
    ended = await tus.call("DELETE", path, {"Tus-Resumable": "1.0.0"})
    answer = await request
    held.close()

    assert (ended.status, answer.status) == (204, 404)
    assert [file for file in tus.ingest.settings.staging_dir.rglob("*") if file.is_file()] == []
