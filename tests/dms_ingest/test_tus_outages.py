"""Whole uploads that cannot be completed now: their last byte does not count before there is a document."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from dms_ingest.completing import Completer
from dms_ingest.publishing import Publisher
from dms_ingest.revisions import NewRevision
from dms_ingest.upload_sessions import Session
from nexarch.auth import User
from nexarch.core_client import CoreApiAway
from support.core_line import CoreLine, run_ingest_over_line
from support.disk import disk_at
from support.ingest import (
    PDF,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    somebody_waits_for_a_lock,
    tenant_database,
)
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION, Answer, Tus, document_of, metadata, number_of_documents
from support.waiting import eventually

pytestmark = pytest.mark.database

SIZE = 300_000
HALF = SIZE // 2


@dataclass(frozen=True, slots=True)
class Service:
    """A dms-ingest, the editor who speaks tus to it, and its way to core-api."""

    tus: Tus
    core_line: CoreLine

    async def whole(self, content: bytes) -> str:
        """An upload all of whose bytes came, the last ones while core-api was away, as it is still; its path."""
        path = await self.tus.create(len(content))
        await self.tus.patch(path, 0, content[:HALF])
        await self.core_line.close()
        assert_away(await self.tus.patch(path, HALF, content[HALF:]))
        return path


@pytest.fixture
async def service(core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path) -> AsyncIterator[Service]:
    async with run_ingest_over_line(core_api, bus_dsn, tmp_path) as (ingest, core_line):
        yield Service(Tus(ingest, editor), core_line)


def assert_away(answer: Answer) -> None:
    assert (answer.status, answer.problem["type"]) == (503, "/problems/core-api-away")
    assert int(answer.headers["Retry-After"]) > 0


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


async def test_the_last_byte_comes_again_until_there_is_a_document(service: Service) -> None:
    tus, content = service.tus, a_pdf(SIZE)
    path = await service.whole(content)
    for _ in range(3):
        head = await tus.head(path)
        assert (head.status, head.offset, head.headers["Upload-Length"]) == (200, SIZE - 1, str(SIZE))
        assert head.document_id is None
        assert_away(await tus.patch(path, SIZE - 1, content[-1:]))
    await service.core_line.open()

    offset = (await tus.head(path)).offset
    repeated = await tus.head(path)

    assert (offset, repeated.offset) == (SIZE, SIZE), "it is completed by whoever asks"
    assert (await document_of(tus, repeated.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_what_comes_as_the_last_byte_at_last_is_what_is_stored(service: Service) -> None:
    tus, content = service.tus, a_pdf(SIZE)
    path = await service.whole(content)
    offset = (await tus.head(path)).offset
    await service.core_line.open()
    another = bytes([content[-1] ^ 1])

    answer = await tus.patch(path, offset, another)

    assert (answer.status, answer.offset) == (204, SIZE)
    wanted = hashlib.sha256(content[:-1] + another).hexdigest()
    assert (await document_of(tus, answer.document_id))[2] == wanted


async def test_a_full_store_is_told_to_whoever_sends_the_last_byte(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + os.urandom(6 << 20)
    with disk_at(tmp_path / "objects") as disk:
        async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as ingest:
            tus = Tus(ingest, editor)
            path = await tus.create(len(content))
            disk.resize(4 << 20)

            full = await tus.patch(path, 0, content)
            head = await tus.head(path)
            full_still = await tus.patch(path, head.offset, content[-1:])
            disk.resize()
            offset = (await tus.head(path)).offset

    for answer in (full, full_still):
        assert (answer.status, answer.problem["type"]) == (507, "/problems/insufficient-storage")
        assert int(answer.headers["Retry-After"]) > 0
    assert (head.status, head.offset) == (200, len(content) - 1)
    assert offset == len(content)


async def test_a_database_that_breaks_off_costs_the_last_byte_alone(core_api: CoreApi, tus: Tus) -> None:
    content = a_pdf(SIZE)
    path = await tus.create(SIZE)
    await tus.ingest.put(tus.person, id_of(path), content)
    async with (
        tenant_database(core_api, tus.person) as conn,
        tenant_database(core_api, tus.person) as holder,
        holder.transaction(),
    ):
        await holder.execute("LOCK TABLE documents IN SHARE MODE")
        asking = asyncio.create_task(tus.head(path))
        await eventually(lambda: somebody_waits_for_a_lock(conn))
        await conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        head = await asking

    answer = await tus.patch(path, head.offset, content[-1:])

    assert (head.status, head.offset) == (200, SIZE - 1)
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


@pytest.fixture
def commits_unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of every upload arrives, and the line to the database breaks before its answer."""
    publish = Publisher.publish

    async def publish_unheard(publisher: Publisher, user: User, session: Session, stored: NewRevision) -> bool:
        await publish(publisher, user, session, stored)
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    monkeypatch.setattr(Publisher, "publish", publish_unheard)


@pytest.mark.usefixtures("commits_unheard")
async def test_a_commit_that_arrived_though_its_answer_did_not_is_a_document(tus: Tus) -> None:
    path = await tus.create(SIZE)
    await tus.ingest.put(tus.person, id_of(path), a_pdf(SIZE))

    head = await tus.head(path)

    assert (head.status, head.offset) == (200, SIZE)
    assert head.document_id is not None
    assert await number_of_documents(tus) == 1


@pytest.mark.usefixtures("commits_unheard")
async def test_an_upload_in_one_request_is_created_if_its_commit_arrived(tus: Tus) -> None:
    """With 503 its client would send the file again: there would be two documents."""
    announced = VERSION | {"Upload-Length": str(SIZE), "Content-Type": CHUNK_TYPE} | metadata(filename="a.pdf")

    created = await tus.call("POST", "/files/", announced, a_pdf(SIZE))
    head = await tus.head(created.headers["Location"])

    assert (created.status, created.offset, head.offset) == (201, SIZE, SIZE)
    assert created.document_id == head.document_id is not None
    assert await number_of_documents(tus) == 1


async def test_nothing_is_taken_back_from_an_upload_that_another_process_completes_meanwhile(
    core_api: CoreApi, bus_dsn: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, person = a_pdf(SIZE), service.tus.person
    path = await service.whole(content)
    complete = Completer.complete
    failed, goes_on = asyncio.Event(), asyncio.Event()

    async def complete_slowly(completer: Completer, user: User, session_id: UUID) -> UUID:
        try:
            return await complete(completer, user, session_id)
        except CoreApiAway:
            failed.set()
            await goes_on.wait()
            raise

    monkeypatch.setattr(Completer, "complete", complete_slowly)
    async with (
        run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as other,
        tenant_database(core_api, person) as holder,
        tenant_database(core_api, person) as conn,
    ):
        asking = asyncio.create_task(service.tus.head(path))
        await failed.wait()
        async with holder.transaction():
            await holder.execute("LOCK TABLE documents IN SHARE MODE")
            completing = asyncio.create_task(other.complete(person, id_of(path)))
            await eventually(lambda: somebody_waits_for_a_lock(conn))
            goes_on.set()
            await asyncio.wait([asking], timeout=0.5)
            assert not asking.done(), "it waits for who completes the upload"
        status, document = await completing
        head = await asking

    assert status == 200, document
    assert (head.status, head.offset, head.document_id) == (200, SIZE, document["id"])


async def test_to_the_json_face_the_last_byte_is_missing(service: Service) -> None:
    tus, content = service.tus, a_pdf(SIZE)
    path = await service.whole(content)
    await tus.head(path)
    await service.core_line.open()

    status, problem = await tus.ingest.complete(tus.person, id_of(path))
    await tus.ingest.put(tus.person, id_of(path), content[-1:], SIZE - 1)
    completed, document = await tus.ingest.complete(tus.person, id_of(path))

    assert (status, problem["type"]) == (409, "/problems/upload-incomplete")
    assert problem["missing"] == [{"start": SIZE - 1, "end": SIZE}]
    assert completed == 200
    assert document["current_revision"]["sha256"] == hashlib.sha256(content).hexdigest()


async def test_a_length_that_is_told_after_the_last_byte_takes_that_byte_back_too(service: Service) -> None:
    tus, content = service.tus, a_pdf(SIZE)
    created = await tus.call("POST", "/files/", VERSION | {"Upload-Defer-Length": "1"} | metadata(filename="a.pdf"))
    path = created.headers["Location"]
    acknowledged = await tus.patch(path, 0, content)
    await service.core_line.close()
    assert_away(await tus.patch(path, SIZE, b"", Upload_Length=str(SIZE)))

    head = await tus.head(path)
    await service.core_line.open()
    answer = await tus.patch(path, head.offset, content[-1:], Upload_Length=str(SIZE))

    assert (acknowledged.offset, head.offset) == (SIZE, SIZE - 1)
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_without_a_byte_to_take_back_it_is_503(service: Service) -> None:
    tus = service.tus
    created = await tus.call("POST", "/files/", VERSION | {"Upload-Defer-Length": "1"} | metadata(filename="a.pdf"))
    path = created.headers["Location"]
    await service.core_line.close()
    empty = VERSION | {"Content-Type": CHUNK_TYPE, "Upload-Offset": "0", "Upload-Length": "0"}
    assert_away(await tus.call("PATCH", path, empty))

    head = await tus.head(path)

    assert head.status == 503
    assert int(head.headers["Retry-After"]) > 0


async def test_a_file_of_parts_has_no_offset_before_it_is_complete_and_its_parts_stay_whole(service: Service) -> None:
    tus, content = service.tus, a_pdf(SIZE)
    paths = []
    for piece in (content[:HALF], content[HALF:]):
        part = await tus.call("POST", "/files/", VERSION | {"Upload-Concat": "partial", "Upload-Length": str(HALF)})
        paths.append(part.headers["Location"])
        await tus.patch(paths[-1], 0, piece)
    final = VERSION | {"Upload-Concat": f"final;{' '.join(paths)}"} | metadata(filename="ganz.pdf")
    await service.core_line.close()
    assert_away(await tus.call("POST", "/files/", final))

    parts = [(await tus.head(path)).offset for path in paths]
    await service.core_line.open()
    answer = await tus.call("POST", "/files/", final)

    assert parts == [HALF, HALF]
    assert (await document_of(tus, answer.document_id))[2] == hashlib.sha256(content).hexdigest()


async def test_a_whole_file_of_parts_is_completed_when_somebody_asks(
    service: Service, core_api: CoreApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    tus = service.tus
    part = await tus.call("POST", "/files/", VERSION | {"Upload-Concat": "partial", "Upload-Length": str(SIZE)})
    await tus.patch(part.headers["Location"], 0, a_pdf(SIZE))
    complete = Completer.complete

    async def complete_alone(completer: Completer, user: User, session_id: UUID) -> UUID:
        await service.core_line.close()
        return await complete(completer, user, session_id)

    with monkeypatch.context() as patched:
        patched.setattr(Completer, "complete", complete_alone)
        final = VERSION | {"Upload-Concat": f"final;{part.headers['Location']}"} | metadata(filename="ganz.pdf")
        assert_away(await tus.call("POST", "/files/", final))
    async with tenant_database(core_api, tus.person) as conn:
        final_id = await conn.fetchval("SELECT id FROM upload_sessions WHERE concat_kind = 'final'")

    away = await tus.head(f"/files/{final_id}")
    await service.core_line.open()
    back = await tus.head(f"/files/{final_id}")

    assert away.status == 200
    assert "Upload-Offset" not in away.headers
    assert (back.offset, away.document_id) == (SIZE, None)
    assert back.document_id is not None
