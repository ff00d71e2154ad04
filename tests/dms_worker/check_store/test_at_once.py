"""A check of the store beside uploads, other jobs and other checks: nothing in use goes, each step counts once."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dms_worker.job_types import JobContext, Snooze
from nexarch.crypto.layout import NXO1
from nexarch.db import Connection
from nexarch.jobs import ClaimedJob
from nexarch.storage.local import LocalStorage
from support.checking import ALL, check_by_worker, checker, download, latest_check, run_check, stray_file
from support.ingest import Ingest, Person, a_pdf, stored_files
from support.processes import run_service
from support.services import CoreApi
from support.waiting import eventually
from support.worker_service import worker_settings

pytestmark = pytest.mark.database

Json = dict[str, Any]


async def test_an_object_that_an_open_upload_may_be_about_to_refer_to_stays_whatever_its_age(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage
) -> None:
    upload_id = await ingest.open_upload(admin, 5000)
    about_to_be = stray_file(ingest, admin, NXO1.object_size(5000), days_old=30)
    async with checker(core_api, storage) as checking:
        await run_check(checking, admin.tenant.slug)
        while_open = about_to_be.exists()
        await ingest.call(admin, "DELETE", f"/v1/uploads/{upload_id}")

        await run_check(checking, admin.tenant.slug)

    assert while_open
    assert not about_to_be.exists()


async def test_sixteen_at_once_upload_and_purge_during_checks_and_nothing_in_use_is_removed(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    done = asyncio.Event()

    async def live(number: int) -> list[tuple[Json, bytes]]:
        """Upload, and purge every other document; the documents that stay."""
        stay = []
        for round_ in range(4):
            content = a_pdf(50_000 + number * 100 + round_)
            document = await ingest.upload(admin, content)
            if round_ % 2:
                await ingest.call(admin, "DELETE", f"/v1/documents/{document['id']}")
                status, _ = await ingest.call(admin, "POST", f"/v1/documents/{document['id']}/purge")
                assert status == 204
            else:
                stay.append((document, content))
        return stay

    async def check() -> int:
        """Check with no age at all, so that whatever looks like an orphan for a moment would go."""
        checks = 0
        limits = replace(ALL, orphans_kept_s=0.0)
        async with checker(core_api, storage, limits) as checking:
            while not done.is_set() or checks < 3:
                await run_check(checking, admin.tenant.slug)
                checks += 1
        return checks

    async with asyncio.TaskGroup() as group:
        checking = group.create_task(check())
        lives = [group.create_task(live(number)) for number in range(16)]
        await asyncio.wait(lives)
        done.set()
    checks = checking.result()
    kept = [each for life in lives for each in life.result()]

    assert checks >= 3
    for document, content in kept:
        assert await download(ingest, admin, document) == (200, content)
    assert await conn.fetchval("SELECT sum(orphans_removed + missing + damaged) FROM store_checks") == 0
    assert len(stored_files(ingest.settings, admin)) == len(kept) == 32


async def test_a_worker_that_is_killed_in_mid_check_has_a_successor_that_goes_on(
    core_api: CoreApi, ingest: Ingest, admin: Person, conn: Connection
) -> None:
    number = 60
    for _ in range(number):
        await ingest.upload(admin, a_pdf(1000))
    await conn.execute("DELETE FROM processing_jobs")
    settings = worker_settings(core_api, ingest.settings, stale_after_s=3)

    async def read() -> int:
        count: int = await conn.fetchval("SELECT coalesce(sum(contents), 0) FROM store_checks")
        return count

    async def begun() -> bool:
        return await read() >= 5

    async with run_service("dms_worker", settings) as first:
        status, ordered = await ingest.call(admin, "POST", "/v1/store-checks", json={"scope": "all"})
        assert status == 202
        await eventually(begun, within_s=60)
        await first.kill()
    before = await read()
    oldest = await conn.fetchval("SELECT min(checked_at) FROM stored_objects")
    async with run_service("dms_worker", settings):
        check = await check_by_worker(ingest, admin, within_s=120)

    assert 5 <= before < number
    assert check["id"] == ordered["id"]
    assert (check["objects"], check["contents"]) == (number, number)
    assert await conn.fetchval("SELECT min(checked_at) FROM stored_objects") == oldest  # none was read twice


async def test_a_check_gives_way_to_other_jobs_after_each_turn_and_says_how_far_it_is(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage
) -> None:
    for _ in range(4):
        await ingest.upload(admin, a_pdf(1000))
    slug = admin.tenant.slug
    job = ClaimedJob(uuid4(), 1, "check_store", "{}", 1, 5, None, 0.0, 0.0)

    progress = []
    async with checker(core_api, storage, replace(ALL, turn_s=0.0)) as checking, checking.tenants.pool(slug) as pool:
        for _ in range(4):
            ctx = JobContext(slug, job, pool)
            with pytest.raises(Snooze):
                await checking.run(ctx)
            progress.append(ctx.latest_progress)
        await checking.run(JobContext(slug, job, pool))

    assert progress == [25, 50, 75, 100]
    assert (await latest_check(ingest, admin))["finished_at"] is not None


async def test_of_two_workers_with_one_check_each_step_counts_once(
    core_api: CoreApi, ingest: Ingest, admin: Person, storage: LocalStorage, conn: Connection
) -> None:
    for _ in range(6):
        await ingest.upload(admin, a_pdf(1000))
    async with checker(core_api, storage) as one, checker(core_api, storage) as other:
        _, ordered = await ingest.call(admin, "POST", "/v1/store-checks", json={"scope": "all"})
        payload = f'{{"check_id": "{ordered["id"]}"}}'

        await asyncio.gather(run_check(one, admin.tenant.slug, payload), run_check(other, admin.tenant.slug, payload))

    check = await latest_check(ingest, admin)
    assert (check["objects"], check["contents"]) == (6, 6)


async def test_who_asks_twice_gets_the_check_that_is_under_way(ingest: Ingest, admin: Person, conn: Connection) -> None:
    orders = [
        await ingest.call(admin, "POST", "/v1/store-checks", json={"scope": scope})
        for scope in ("sample", "sample", "all")
    ]

    ids = [answer["id"] for _, answer in orders]
    assert (ids[0] == ids[1], ids[1] == ids[2]) == (True, False)
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE job_type = 'check_store'") == 2
