"""What lies on the ingest host's disk while an upload is open: nothing readable, and nothing wrong gets past it."""

import hashlib
import os
from pathlib import Path

import pytest

from dms_ingest.slots import HEADER, SLOT, STRIDE
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest, staged_file, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database

SENTENCE = b"This sentence is nobody's business. "


async def test_no_byte_of_an_upload_can_be_read_on_the_disk_nor_any_key(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    content = PDF + SENTENCE * 20_000
    upload_id = await ingest.open_upload(editor, len(content))
    await ingest.put(editor, upload_id, content[:300_001])
    await ingest.put(editor, upload_id, content[300_001:], 300_001)

    on_disk = staged_file(ingest.settings, editor, upload_id).read_bytes()

    async with core_api.client("dms_ingest") as client:
        kek = await client.kek(editor.tenant.slug)
    async with tenant_database(core_api, editor) as conn:
        wrapped = await conn.fetchval("SELECT wrapped_key FROM upload_sessions")
    assert len(on_disk) > len(content)
    assert not any(secret in on_disk for secret in (b"nobody", b"%PDF", kek.kek, wrapped))
    status, document = await ingest.complete(editor, upload_id)
    assert (status, document["current_revision"]["sha256"]) == (200, hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("damage", ["bit", "swap", "cut", "zeros", "other"])
async def test_what_the_disk_damaged_is_asked_for_again_and_never_becomes_a_document(
    ingest: Ingest, editor: Person, damage: str
) -> None:
    content = PDF + os.urandom(3 * SLOT)
    upload_id, other_id = [await ingest.open_upload(editor, len(content)) for _ in range(2)]
    await ingest.put(editor, upload_id, content)
    await ingest.put(editor, other_id, content)
    file = staged_file(ingest.settings, editor, upload_id)
    stored, other = bytearray(file.read_bytes()), staged_file(ingest.settings, editor, other_id).read_bytes()
    second, third = slice(STRIDE, 2 * STRIDE), slice(2 * STRIDE, 3 * STRIDE)
    if damage == "bit":
        stored[STRIDE + HEADER + 12_345] ^= 1
    elif damage == "swap":
        stored[second], stored[third] = stored[third], stored[second]
    elif damage == "cut":
        del stored[2 * STRIDE :]
    elif damage == "zeros":
        stored[second] = bytes(STRIDE)
    else:
        stored[third] = other[third]
    file.write_bytes(stored)
    lost = {"bit": (1, 2), "swap": (1, 3), "cut": (2, 4), "zeros": (1, 2), "other": (2, 3)}[damage]
    start, end = lost[0] * SLOT, min(lost[1] * SLOT, len(content))

    refused, problem = await ingest.complete(editor, upload_id)
    await ingest.put(editor, upload_id, content[start:end], start)
    status, document = await ingest.complete(editor, upload_id)

    assert (refused, problem["type"]) == (409, "/problems/upload-incomplete")
    assert problem["missing"] == [{"start": start, "end": end}]
    assert (status, document["current_revision"]["sha256"]) == (200, hashlib.sha256(content).hexdigest())


async def test_two_processes_that_share_the_folder_take_turns_in_one_upload(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + os.urandom(2 * SLOT + 1000)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    async with run_ingest(settings) as one, run_ingest(settings) as two:
        upload_id = await one.open_upload(editor, len(content))

        for number, offset in enumerate(range(0, len(content), 100_000)):
            await (one, two)[number % 2].put(editor, upload_id, content[offset : offset + 100_000], offset)
        status, document = await one.complete(editor, upload_id)

    assert (status, document["current_revision"]["sha256"]) == (200, hashlib.sha256(content).hexdigest())


async def test_the_digest_is_that_of_the_stored_bytes_though_another_process_wrote_the_last(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + os.urandom(2 * SLOT)
    changed = content[:SLOT] + b"changed" + content[SLOT + 7 :]
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    async with run_ingest(settings) as one, run_ingest(settings) as two:
        upload_id = await one.whole_upload(editor, content)

        await two.put(editor, upload_id, b"changed", SLOT)
        _, document = await one.complete(editor, upload_id)

        url = f"{two.url}/v1/documents/{document['id']}/content"
        async with two.session.get(url, headers=editor.headers) as response:
            stored = await response.read()
    assert stored == changed
    assert document["current_revision"]["sha256"] == hashlib.sha256(changed).hexdigest()


async def test_bytes_that_were_hashed_as_they_came_are_not_hashed_again(
    ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = PDF + os.urandom(3 * SLOT)
    in_order, backwards = [await ingest.open_upload(editor, len(content)) for _ in range(2)]
    half = len(content) // 2
    for start, end in [(0, half), (half, len(content))]:
        await ingest.put(editor, in_order, content[start:end], start)
    for start, end in [(half, len(content)), (0, half)]:
        await ingest.put(editor, backwards, content[start:end], start)
    hashed: list[int] = []

    def sha256() -> "hashlib._Hash":
        hashed.append(1)
        return hashlib.sha256()

    monkeypatch.setattr("dms_ingest.staged_reading.new_digest", sha256)

    _, first = await ingest.complete(editor, in_order)
    after_first = len(hashed)
    _, second = await ingest.complete(editor, backwards)

    assert (after_first, len(hashed)) == (0, 1)
    digests = {document["current_revision"]["sha256"] for document in (first, second)}
    assert digests == {hashlib.sha256(content).hexdigest()}
