"""The check of the object store: what it finds, what it removes, and what it leaves alone."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from structlog.testing import capture_logs

from dms_worker import store_listing
from dms_worker.handlers.check_store import CheckLimits, StoreChecking
from dms_worker.handlers.rewrap_keys import KeyRewrapping
from dms_worker.job_types import JobContext
from dms_worker.store_contents import ObjectReader
from dms_worker.stored_objects import next_to_read
from nexarch.core_client import CoreApiAway, KeyRetired, open_core_client
from nexarch.db import Connection
from nexarch.jobs import ClaimedJob
from nexarch.storage import BucketNotFound, open_storage
from nexarch.storage.local import LocalStorage
from support.checking import (
    ALL,
    check_by_worker,
    checker,
    download,
    latest_check,
    make_old,
    object_file,
    run_check,
    stray_file,
)
from support.database import free_port
from support.ingest import Ingest, Person, a_pdf, ingest_settings, run_ingest, stored_files, stored_folder
from support.s3 import s3_variables
from support.seaweedfs import S3Server
from support.services import CoreApi
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database

Json = dict[str, Any]


async def document_of(ingest: Ingest, admin: Person, document: Json) -> Json:
    _, answer = await ingest.call(admin, "GET", f"/v1/documents/{document['id']}")
    return dict(answer)


def findings(check: Json) -> dict[str, str]:
    """Key to what was found."""
    return {each["storage_key"]: each["kind"] for each in check["findings"]}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


async def test_old_orphans_and_leftovers_are_removed_and_the_rest_stays(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage
) -> None:
    kept = await ingest.upload(admin, a_pdf())
    make_old(object_file(ingest, admin, kept), 400)
    old, young = stray_file(ingest, admin, days_old=1.1), stray_file(ingest, admin, days_old=0.9)
    incoming = stored_folder(ingest.settings, admin) / ".incoming"
    half, busy = incoming / "half", incoming / "busy"
    half.write_bytes(b"x")
    busy.write_bytes(b"x")
    make_old(half, 1.1)

    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)
    check = await latest_check(ingest, admin)

    assert set(stored_files(ingest.settings, admin)) == {object_file(ingest, admin, kept), young, busy}
    assert [check[name] for name in ("objects", "orphans_removed", "orphans_young", "leftovers")] == [3, 1, 1, 1]
    assert findings(check) == {str(old.relative_to(stored_folder(ingest.settings, admin))): "orphan"}
    assert (await download(ingest, admin, kept))[0] == 200


@pytest.mark.parametrize(("listed", "rows"), [(1, 1), (2, 3), (3, 2), (7, 100), (100, 7)])
async def test_listing_and_rows_are_compared_alike_in_steps_of_any_length(
    core_api: CoreApi,
    ingest: Ingest,
    admin: Person,
    storage: LocalStorage,
    monkeypatch: pytest.MonkeyPatch,
    listed: int,
    rows: int,
) -> None:
    monkeypatch.setattr(store_listing, "_LISTED", listed)
    monkeypatch.setattr(store_listing, "_ROWS", rows)
    documents = [await ingest.upload(admin, a_pdf(100)) for _ in range(12)]
    old = [stray_file(ingest, admin, days_old=2) for _ in range(5)]
    for _ in range(4):
        stray_file(ingest, admin, days_old=0.5)
    # The first, the last and some in a row: wherever a step may end.
    lost = [documents[n] for n in (0, 3, 4, 5, 6, 11)]
    for document in lost:
        object_file(ingest, admin, document).unlink()

    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)

    check = await latest_check(ingest, admin)
    missing = [each["document_ids"][0] for each in check["findings"] if each["kind"] == "missing"]
    assert sorted(missing) == sorted(document["id"] for document in lost)
    assert [check[name] for name in ("objects", "missing", "orphans_removed", "orphans_young")] == [15, 6, 5, 4]
    assert not any(path.exists() for path in old)


async def test_a_tenant_that_never_stored_anything_has_nothing_to_check(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage
) -> None:
    shutil.rmtree(stored_folder(ingest.settings, admin), ignore_errors=True)

    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)

    check = await latest_check(ingest, admin)
    assert (check["phase"], check["objects"], check["contents"], check["findings"]) == ("finished", 0, 0, [])


async def test_a_missing_and_two_damaged_files_are_shown_until_they_are_well_again_or_replaced(
    core_api: CoreApi, ingest: Ingest, admin: Person
) -> None:
    contents = [a_pdf() for _ in range(4)]
    missing, short, flipped, well = documents = [await ingest.upload(admin, content) for content in contents]
    files = [object_file(ingest, admin, document) for document in documents]
    originals = [path.read_bytes() for path in files]
    files[0].unlink()
    files[1].write_bytes(originals[1][:-1])
    flip(files[2], len(originals[2]) // 2)

    async with run_worker(worker_settings(core_api, ingest.settings)):
        check = await check_by_worker(ingest, admin)
        shown = [await document_of(ingest, admin, document) for document in documents]
        _, listed = await ingest.call(admin, "GET", "/v1/documents", params={"state": "damaged"})
        _, revisions = await ingest.call(admin, "GET", f"/v1/documents/{missing['id']}/revisions")
        downloads = [(await download(ingest, admin, document))[0] for document in (missing, short, well)]

        for path, original in zip(files[:2], originals[:2], strict=True):
            path.write_bytes(original)
        upload_id = await ingest.open_upload(admin, len(contents[3]), document_id=flipped["id"])
        await ingest.put(admin, upload_id, contents[3])
        await ingest.complete(admin, upload_id)
        later = await check_by_worker(ingest, admin, "sample")
        _, damaged_later = await ingest.call(admin, "GET", "/v1/documents", params={"state": "damaged"})

    assert [check[name] for name in ("objects", "contents", "missing", "damaged")] == [3, 2, 1, 2]
    assert sorted(findings(check).values()) == ["content", "missing", "size"]
    assert {each["document_ids"][0] for each in check["findings"]} == {each["id"] for each in documents[:3]}
    assert [each["processing_state"] == "damaged" for each in shown] == [True, True, True, False]
    assert [each["processing_error"]["code"] for each in shown[:3]] == [
        "object-missing", "object-damaged", "object-damaged",
    ]  # fmt: skip
    assert {each["id"] for each in listed["items"]} == {each["id"] for each in documents[:3]}
    assert revisions["items"][0]["processing_state"] == "damaged"
    assert downloads == [500, 500, 200]
    assert (later["missing"], later["damaged"]) == (0, 1)  # the older revision of the one that was replaced
    assert damaged_later["items"] == []


async def test_other_bytes_under_a_good_seal_are_damage_too(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    document = await ingest.upload(admin, a_pdf())
    await conn.execute("UPDATE file_revisions SET checksum_sha256 = sha256('something else')")

    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)

    assert findings(await latest_check(ingest, admin)).popitem()[1] == "content"
    assert (await document_of(ingest, admin, document))["processing_state"] == "damaged"


async def test_a_store_that_is_not_there_marks_nothing_and_the_check_goes_on_when_it_is_back(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    await ingest.upload(admin, a_pdf())
    folder = stored_folder(ingest.settings, admin)
    away = folder.with_name("away")
    async with checker(core_api, storage) as checking:
        folder.rename(away)
        with pytest.raises(BucketNotFound):
            await run_check(checking, admin.tenant.slug)
        marked = await conn.fetchval("SELECT count(*) FROM stored_objects WHERE damage IS NOT NULL")
        await conn.execute("UPDATE store_checks SET phase = 'contents'")
        with pytest.raises(BucketNotFound):
            await run_check(checking, admin.tenant.slug)
        marked += await conn.fetchval("SELECT count(*) FROM stored_objects WHERE damage IS NOT NULL")

        away.rename(folder)
        await run_check(checking, admin.tenant.slug)

    check = await latest_check(ingest, admin)
    assert marked == 0
    assert (check["contents"], check["missing"], check["damaged"]) == (1, 0, 0)
    assert await conn.fetchval("SELECT count(*) FROM store_checks") == 1


async def test_a_core_api_that_is_away_marks_nothing(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    await ingest.upload(admin, a_pdf())
    async with (
        checker(core_api, storage) as checking,
        open_core_client(f"http://127.0.0.1:{free_port()}", "x", SecretStr("x")) as nobody,
    ):
        await checking.tenants.tenant_id(admin.tenant.slug)

        with pytest.raises(CoreApiAway):
            await run_check(replace(checking, core=nobody), admin.tenant.slug)

    assert await conn.fetchval("SELECT count(*) FROM stored_objects WHERE checked_at IS NOT NULL") == 0


async def test_a_key_that_does_not_open_is_reported_and_is_no_damage_of_the_object(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    document, other = await ingest.upload(admin, a_pdf()), await ingest.upload(admin, a_pdf())
    sql = "UPDATE file_revisions SET wrapped_dek = $2 WHERE document_id = $1"
    await conn.execute(sql, UUID(document["id"]), os.urandom(60))

    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)

    check = await latest_check(ingest, admin)
    assert [each["document_ids"] for each in check["findings"]] == [[document["id"]]]
    assert (check["unreadable_keys"], check["damaged"]) == (1, 0)
    for each in (document, other):
        assert (await document_of(ingest, admin, each))["processing_state"] == "queued"


async def test_a_row_that_was_wrapped_anew_since_it_was_read_is_read_again_and_no_finding(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    for _ in range(8):
        await ingest.upload(admin, a_pdf(1000))
    slug = admin.tenant.slug

    async def rotate(checking: StoreChecking) -> None:
        """Give the tenant a new key, and retire the old one."""
        await core_api.call("POST", f"/v1/tenants/{slug}/kek/rotate")
        job = ClaimedJob(uuid4(), 1, "rewrap_keys", "{}", 1, 5, None, 0.0, 0.0)
        async with checking.tenants.pool(slug) as pool:
            await KeyRewrapping(checking.core, checking.tenants).run(JobContext(slug, job, pool))

    async with checker(core_api, storage) as checking:
        stale = await next_to_read(conn, datetime.now(UTC))
        assert stale is not None
        await rotate(checking)
        with pytest.raises(KeyRetired):
            await ObjectReader(checking.core, storage, slug, admin.tenant.id).fault(stale)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_check(checking, slug))
            for _ in range(4):
                await rotate(checking)

    check = await latest_check(ingest, admin)
    assert (check["contents"], check["findings"]) == (8, [])


async def test_a_sample_reads_what_was_not_read_for_the_longest_time_up_to_its_limits(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    for _ in range(5):
        await ingest.upload(admin, a_pdf())

    async def read_times(limits: CheckLimits) -> list[int]:
        """How many objects were ever read after one more check, and how many that one read."""
        async with checker(core_api, storage, limits) as checking:
            await run_check(checking, admin.tenant.slug)
        rows = await conn.fetch("SELECT checked_at FROM stored_objects WHERE checked_at IS NOT NULL")
        return [len(rows), (await latest_check(ingest, admin))["contents"]]

    by_number = replace(ALL, sample_objects=2)
    first, second, third = [await read_times(by_number) for _ in range(3)]
    by_bytes = await read_times(replace(ALL, sample_bytes=400_000))

    assert [first, second, third] == [[2, 2], [4, 2], [5, 2]]
    assert by_bytes == [5, 2]


async def test_each_finding_is_logged_and_counted(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage
) -> None:
    document = await ingest.upload(admin, a_pdf())
    object_file(ingest, admin, document).unlink()
    stray_file(ingest, admin, days_old=2)
    registry = CollectorRegistry()

    with capture_logs() as lines:
        async with checker(core_api, storage, registry=registry) as checking:
            await run_check(checking, admin.tenant.slug)

    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert sorted(str(line["finding"]) for line in warnings) == ["missing", "orphan"]
    counts = {
        kind: registry.get_sample_value("nexarch_store_check_findings_total", {"kind": kind})
        for kind in ("orphan", "missing", "size", "content", "key")
    }
    assert counts == {"orphan": 1, "missing": 1, "size": 0, "content": 0, "key": 0}
    assert registry.get_sample_value("nexarch_store_check_last_finished_timestamp_seconds")


async def test_objects_on_s3_are_checked_alike(
    core_api: CoreApi, bus_dsn: str, s3_server: S3Server, admin: Person, tmp_path: Path
) -> None:
    variables = s3_variables(s3_server)
    settings = ingest_settings(core_api, bus_dsn, tmp_path, storage_dir=None, **variables)

    async def some_bytes() -> AsyncIterator[bytes]:
        yield b"x" * 1000

    stray = "documents/018f0000-0000-7000-8000-000000000000/revisions/018f0000-0000-7000-8000-000000000001"
    async with run_ingest(settings) as ingest, open_storage(settings) as storage:
        kept, missing, damaged = [await ingest.upload(admin, a_pdf()) for _ in range(3)]
        keys = [
            f"documents/{each['id']}/revisions/{each['current_revision']['id']}" for each in (kept, missing, damaged)
        ]
        slug = admin.tenant.slug
        await storage.delete(slug, keys[1])
        await storage.delete(slug, keys[2])
        await storage.put(slug, keys[2], some_bytes())
        await storage.put(slug, stray, some_bytes())
        async with checker(core_api, storage) as checking:
            await run_check(checking, slug)
            first = await latest_check(ingest, admin)
        async with checker(core_api, storage, replace(ALL, orphans_kept_s=-3600.0)) as checking:
            await run_check(checking, slug)
            second = await latest_check(ingest, admin)
        left = [stored.key async for stored in storage.list_objects(slug)]

    assert (first["orphans_young"], first["orphans_removed"]) == (1, 0)
    assert findings(first) == {keys[1]: "missing", keys[2]: "size"}
    assert findings(second) == {stray: "orphan", keys[1]: "missing", keys[2]: "size"}
    assert sorted(left) == sorted([keys[0], keys[2]])
