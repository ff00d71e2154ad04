"""What a line can do to an upload: break, lie about its length, fall silent, or find the disk full."""

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from dms_ingest.slots import stored_length
from dms_ingest.staging import StagedFile
from support.disk import disk_at
from support.files import size_of, size_reaches
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest, run_ingest_process, staged_file
from support.raw_line import RawLine, begin
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20


async def begin_put(ingest: Ingest, person: Person, upload_id: str, *headers: str, offset: int = 0) -> RawLine:
    """Send the head of a PUT, with these headers."""
    return await begin(ingest, person, "PUT", f"/v1/uploads/{upload_id}/content?offset={offset}", *headers)


async def received(ingest: Ingest, person: Person, upload_id: str) -> list[tuple[int, int]]:
    _, upload = await ingest.call(person, "GET", f"/v1/uploads/{upload_id}")
    return [(part["start"], part["end"]) for part in upload["received"]]


async def test_a_file_cut_at_half_by_a_reset_goes_on_where_it_was(ingest: Ingest, editor: Person) -> None:
    content = PDF + os.urandom(8 * MIB)
    sent = len(content) // 2 + 12_345
    upload_id = await ingest.open_upload(editor, len(content))
    line = await begin_put(ingest, editor, upload_id, f"Content-Length: {len(content)}")
    await line.send(content[:sent])
    # Let the bytes reach the other side: a reset takes back what is still on its way.
    await eventually(lambda: size_reaches(staged_file(ingest.settings, editor, upload_id), sent - MIB))

    line.reset()

    await eventually(lambda: something_came(ingest, editor, upload_id))
    [(start, end)] = await received(ingest, editor, upload_id)
    assert start == 0
    assert 0.9 * sent <= end <= sent
    status, _ = await ingest.put(editor, upload_id, content[end:], end)
    assert status == 200
    status, document = await ingest.complete(editor, upload_id)
    assert (status, document["current_revision"]["size"]) == (200, len(content))


async def something_came(ingest: Ingest, person: Person, upload_id: str) -> bool:
    return await received(ingest, person, upload_id) != []


async def test_a_broken_line_keeps_the_last_byte_that_came(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 1000)
    line = await begin_put(ingest, editor, upload_id, "Content-Length: 900", offset=100)
    await line.send(b"x" * 333)

    await line.close()

    await eventually(lambda: something_came(ingest, editor, upload_id))
    assert await received(ingest, editor, upload_id) == [(100, 433)]


async def test_a_chunked_body_that_is_too_long_is_cut_at_the_announced_size(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 5000)

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    status, problem = await ingest.put(editor, upload_id, endless(), 1000)

    assert (status, problem["type"], problem["size"]) == (413, "/problems/beyond-announced-size", 5000)
    assert await received(ingest, editor, upload_id) == [(1000, 5000)]
    assert size_of(staged_file(ingest.settings, editor, upload_id)) == stored_length(5000)


async def test_a_length_beyond_the_announced_size_is_refused_before_the_first_byte(
    ingest: Ingest, editor: Person
) -> None:
    upload_id = await ingest.open_upload(editor, 5000)
    for offset, status in [(0, 413), (4999, 413), (5001, 422)]:
        line = await begin_put(ingest, editor, upload_id, "Content-Length: 5001", "Expect: 100-continue", offset=offset)

        assert await line.status() == status
        await line.close()

    assert await received(ingest, editor, upload_id) == []


async def test_a_client_that_waits_for_it_is_told_to_go_on(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 5)
    line = await begin_put(ingest, editor, upload_id, "Content-Length: 5", "Expect: 100-continue")

    asked = await line.status()
    await line.reader.readline()
    await line.send(b"hello")

    assert asked == 100
    assert await line.status() == 200
    await line.close()


async def test_a_compressed_body_is_refused(ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 1000)
    line = await begin_put(ingest, editor, upload_id, "Content-Length: 5", "Content-Encoding: gzip")

    assert await line.status() == 415
    await line.close()


async def test_a_full_disk_is_told_and_the_upload_goes_on_from_what_lies_on_it(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + os.urandom(8 * MIB)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    with disk_at(settings.staging_dir) as disk:
        async with run_ingest(settings) as ingest:
            upload_id = await ingest.open_upload(editor, len(content))
            disk.resize(4 * MIB)

            full, problem = await ingest.put(editor, upload_id, content)
            [(start, end)] = await received(ingest, editor, upload_id)
            still_full, _ = await ingest.put(editor, upload_id, content[end:], end)
            [(_, same)] = await received(ingest, editor, upload_id)
            disk.resize()
            await ingest.put(editor, upload_id, content[end:], end)
            status, document = await ingest.complete(editor, upload_id)

    assert (full, problem["type"], still_full) == (507, "/problems/staging-full", 507)
    assert start == 0
    assert 3 * MIB < end == same < 4 * MIB
    assert status == 200
    assert document["current_revision"]["sha256"] == hashlib.sha256(content).hexdigest()


async def test_a_line_that_falls_silent_or_talks_nonsense_is_ended_and_its_bytes_are_kept(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, upload_idle_s=0.3)
    async with run_ingest(settings) as ingest:
        for rest in (b"", b"not a length\r\n"):
            upload_id = await ingest.open_upload(editor, 1000)
            line = await begin_put(ingest, editor, upload_id, "Transfer-Encoding: chunked")
            await line.send(b"5\r\nhello\r\n")
            await eventually(partial(size_reaches, staged_file(ingest.settings, editor, upload_id), 0))

            await line.send(rest)
            status = await line.status()

            assert status == 409
            assert await received(ingest, editor, upload_id) == [(0, 5)]
            await line.close()


async def test_complete_does_not_wait_for_a_line_that_hangs(ingest: Ingest, editor: Person) -> None:
    content = PDF + bytes(1000)
    upload_id = await ingest.open_upload(editor, len(content))
    hanging = await begin_put(ingest, editor, upload_id, f"Content-Length: {len(content)}")
    await hanging.send(content[:10])
    await eventually(lambda: size_reaches(staged_file(ingest.settings, editor, upload_id), 0))
    await ingest.put(editor, upload_id, content)

    async with asyncio.timeout(5):
        status, _ = await ingest.complete(editor, upload_id)

    assert status == 200
    assert await hanging.status() == 409
    await hanging.close()


async def test_complete_does_not_wait_for_a_line_that_hangs_in_another_process(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + bytes(1000)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    async with run_ingest_process(settings) as (there, _), run_ingest(settings) as here:
        upload_id = await here.open_upload(editor, len(content))
        hanging = await begin_put(there, editor, upload_id, f"Content-Length: {len(content)}")
        await hanging.send(content[:10])
        await eventually(lambda: size_reaches(staged_file(here.settings, editor, upload_id), 0))
        await here.put(editor, upload_id, content)

        async with asyncio.timeout(5):
            status, _ = await here.complete(editor, upload_id)

        assert status == 200
        assert await hanging.status() == 409
        await hanging.close()


async def test_a_stop_of_the_service_keeps_what_came(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    settings = ingest_settings(core_api, bus_dsn, tmp_path, grace_period_s=0.3)
    async with run_ingest_process(settings) as (ingest, process):
        upload_id = await ingest.open_upload(editor, 5 * MIB)
        line = await begin_put(ingest, editor, upload_id, f"Content-Length: {5 * MIB}")
        await line.send(b"x" * (2 * MIB + 5))
        await eventually(lambda: size_reaches(staged_file(ingest.settings, editor, upload_id), 2 * MIB))

        exit_code = await process.stop()

    async with run_ingest(settings) as ingest:
        assert await received(ingest, editor, upload_id) == [(0, 2 * MIB + 5)]
    assert exit_code == 0
    await line.close()


async def test_bytes_that_the_disk_does_not_promise_to_keep_are_not_recorded(
    ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_file: StagedFile) -> None:
        raise OSError(errno.EIO, "Input/output error")

    upload_id = await ingest.open_upload(editor, 5)
    monkeypatch.setattr(StagedFile, "sync", fail)

    status, _ = await ingest.put(editor, upload_id, b"hello")

    assert status == 500
    assert await received(ingest, editor, upload_id) == []
