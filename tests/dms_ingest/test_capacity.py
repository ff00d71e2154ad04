"""As many transfers as there are seats: whoever comes then is told when to come again, and a crowd fits into memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.documents import add_document
from support.fetching import content_path, fetch, object_file
from support.files import open_files
from support.ingest import (
    PDF,
    Ingest,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    run_ingest_process,
    sign_in,
    sign_in_another,
    tenant_database,
)
from support.raw_line import RawLine, begin
from support.services import CoreApi
from support.tus import CHUNK_TYPE, VERSION, Tus, metadata
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20
BUDGET = 320 * MIB  # of the 512 MiB that docker-compose.yml gives the service


@asynccontextmanager
async def run_small(core: CoreApi, bus_dsn: str, folder: Path, **changes: object) -> AsyncIterator[Ingest]:
    async with run_ingest(ingest_settings(core, bus_dsn, folder, **changes)) as ingest:
        yield ingest


async def begin_upload(ingest: Ingest, person: Person, size: int) -> RawLine:
    """A PUT that is under way, and says no more than its first bytes."""
    upload_id = await ingest.open_upload(person, size)
    path = f"/v1/uploads/{upload_id}/content"
    line = await begin(ingest, person, "PUT", path, f"Content-Length: {size}")
    await line.send(PDF)
    return line


async def running(ingest: Ingest, kind: str) -> int:
    """What the metrics say of how many transfers run."""
    async with ingest.session.get(ingest.url + "/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith(f'nexarch_transfers{{kind="{kind}"}}'))


async def eventually_running(ingest: Ingest, kind: str, count: int) -> None:
    async def so_many_run() -> bool:
        return await running(ingest, kind) == count

    await eventually(so_many_run)


def unsent_bytes(ingest: Ingest) -> int:
    """What the sockets of the service hold for others, by proc_net_tcp: its address, and the length of its queue."""
    local = f":{urlsplit(ingest.url).port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[0], 16) for row in rows if row[1].endswith(local))


async def test_a_download_too_many_is_told_when_to_come_again(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, max_downloads=1) as ingest:
        document = await ingest.upload(editor, content := a_pdf(20 * MIB))
        path = content_path(document)
        slow = await begin(ingest, editor, "GET", path)
        assert await slow.status() == 200

        refused = await fetch(ingest, editor, path)
        head = await fetch(ingest, editor, path, method="HEAD")
        slow.reset()
        await eventually_running(ingest, "download", 0)
        again = await fetch(ingest, editor, path)

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert b'"/problems/at-capacity"' in refused.body
    assert head.status == 200
    assert (again.status, again.body) == (200, content)


async def test_an_upload_too_many_is_told_so_on_both_faces_and_opens_nothing(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, max_uploads=1) as ingest:
        tus, upload_id = Tus(ingest, editor), await ingest.open_upload(editor, len(PDF))
        opened = await tus.call("POST", "/files/", VERSION | metadata(filename="a") | {"Upload-Length": str(len(PDF))})
        location = opened.headers["Location"]
        bytes_headers = VERSION | {"Content-Type": CHUNK_TYPE}
        part = await tus.call("POST", "/files/", VERSION | {"Upload-Concat": "partial", "Upload-Length": str(len(PDF))})
        await tus.call("PATCH", part.headers["Location"], bytes_headers | {"Upload-Offset": "0"}, PDF)
        whole = VERSION | metadata(filename="c") | {"Upload-Concat": f"final;{part.headers['Location']}"}
        creation = bytes_headers | metadata(filename="b") | {"Upload-Length": str(len(PDF))}
        chunk = bytes_headers | {"Upload-Offset": "0"}
        slow = await begin_upload(ingest, editor, MIB)
        await eventually_running(ingest, "upload", 1)

        put, _ = await ingest.put(editor, upload_id, PDF)
        created = await tus.call("POST", "/files/", creation, PDF)
        appended = await tus.call("PATCH", location, chunk, PDF)
        put_together = await tus.call("POST", "/files/", whole)
        looked = await tus.call("HEAD", location, VERSION)
        slow.reset()
        await eventually_running(ingest, "upload", 0)
        again = await tus.call("PATCH", location, chunk, PDF)
        put_together_again = await tus.call("POST", "/files/", whole)

    assert (put, created.status, appended.status, put_together.status) == (503, 503, 503, 503)
    assert put_together_again.status in {201, 422}, "the bytes may be there already"
    assert "Location" not in created.headers
    assert appended.headers["Retry-After"] == "5"
    assert (looked.status, looked.offset) == (200, 0)
    assert (again.status, again.offset) == (204, len(PDF))


async def test_the_slow_lines_of_one_person_leave_seats_for_everybody_else(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    colleague = await sign_in_another(core_api, editor.tenant, email="colleague@example.org")
    stranger = await sign_in(core_api)
    async with run_small(core_api, bus_dsn, tmp_path, max_downloads=9) as ingest:
        document, theirs = await ingest.upload(editor, a_pdf(20 * MIB)), await ingest.upload(stranger, PDF)
        lines = [await begin(ingest, editor, "GET", content_path(document)) for _ in range(9)]
        statuses = [await line.status() for line in lines]

        of_colleague = await fetch(ingest, colleague, content_path(document), {"Range": "bytes=0-9"})
        of_stranger = await fetch(ingest, stranger, content_path(theirs))
        for line in lines:
            line.reset()

    assert sorted(statuses) == [200] * 3 + [503] * 6
    assert (of_colleague.status, of_stranger.status) == (206, 200)


async def test_who_follows_links_shares_with_those_at_the_same_address_alone(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, max_downloads=9, trusted_proxies="127.0.0.0/8") as ingest:
        document = await ingest.upload(editor, a_pdf(20 * MIB))
        _, link = await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/links", json={"expires_in": 60})
        lines = [await begin(ingest, editor, "GET", link["url"], "X-Forwarded-For: 203.0.113.9") for _ in range(4)]
        statuses = [await line.status() for line in lines]

        elsewhere = await fetch(ingest, None, link["url"], {"X-Forwarded-For": "203.0.113.10", "Range": "bytes=0-9"})
        for line in lines:
            line.reset()

    assert sorted(statuses) == [200] * 3 + [503]
    assert elsewhere.status == 206


async def test_a_download_that_nobody_takes_is_broken_off_and_a_slow_one_is_not(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, download_idle_s=0.3) as ingest:
        document = await ingest.upload(editor, content := a_pdf(20 * MIB))
        stored = str(object_file(ingest, editor, document))
        silent = await begin(ingest, editor, "GET", content_path(document))
        assert await silent.status() == 200
        received = bytearray()
        async with ingest.session.get(ingest.url + content_path(document), headers=editor.headers) as response:
            async for piece in response.content.iter_chunked(MIB):
                received += piece
                await asyncio.sleep(0.1)  # so all takes several times as long as nobody may be silent

        async def is_closed() -> bool:
            return stored not in open_files()

        await eventually(is_closed)
        await eventually_running(ingest, "download", 0)
        silent.reset()

    assert received == content


async def test_a_text_that_nobody_takes_holds_a_seat_and_is_broken_off(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, download_idle_s=1.0, max_downloads=1) as ingest:
        async with tenant_database(core_api, editor) as conn:
            document = await add_document(conn, editor.tenant.user_id, text="Zeile\n" * (8 * MIB // 6))
        path = f"/v1/documents/{document}/text"
        silent = await begin(ingest, editor, "GET", path, receive_buffer=1 << 16)
        assert await silent.status() == 200

        refused = await fetch(ingest, editor, path)
        unsent = 0
        async with asyncio.timeout(15):
            while await running(ingest, "download"):
                unsent = max(unsent, unsent_bytes(ingest))
        again = await fetch(ingest, editor, path)
        silent.reset()

    assert (refused.status, again.status) == (503, 200)
    assert len(again.body) > 7 * MIB
    assert unsent < MIB


async def test_a_line_that_takes_less_than_the_socket_holds_is_not_broken_off(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person
) -> None:
    async with run_small(core_api, bus_dsn, tmp_path, download_idle_s=1.0) as ingest:
        document = await ingest.upload(editor, a_pdf(20 * MIB))
        slow = await begin(ingest, editor, "GET", content_path(document), receive_buffer=1 << 16)
        received = 0
        for _ in range(35):
            received += len(await slow.reader.read(1 << 14))
            await asyncio.sleep(0.1)  # the pace of the line: 3.5 s, in which so little taken must count as something
        still = await running(ingest, "download")
        slow.reset()

    assert received < MIB
    assert still == 1


async def test_a_crowd_of_slow_lines_fits_into_memory_and_others_are_served(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    people = [await sign_in(core_api) for _ in range(12)]
    everybody, of_each = people[:-1], 7  # many more get no seats
    async with run_ingest_process(ingest_settings(core_api, bus_dsn, tmp_path)) as (ingest, process):
        documents = [await ingest.upload(person, a_pdf(8 * MIB)) for person in people]
        downloads = [
            await begin(ingest, person, "GET", content_path(document))
            for _ in range(of_each)
            for person, document in zip(everybody, documents, strict=False)
        ]
        statuses = [await line.status() for line in downloads]
        uploads = [await begin_upload(ingest, person, 64 * MIB) for _ in range(of_each) for person in everybody]
        await asyncio.gather(*(line.send(bytes(4 * MIB)) for line in uploads))

        another = await fetch(ingest, people[-1], content_path(documents[-1]))
        status, _ = await ingest.put(people[-1], await ingest.open_upload(people[-1], MIB), bytes(MIB))
        peak, in_sockets = process.peak_bytes(), unsent_bytes(ingest)
        for line in downloads + uploads:
            line.reset()

    assert statuses == [200] * len(downloads)
    assert (another.status, len(another.body), status) == (200, 8 * MIB, 200)
    assert peak < BUDGET
    assert in_sockets < 96 * MIB, "a container pays for them too"
