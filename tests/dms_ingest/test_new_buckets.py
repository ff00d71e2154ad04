import asyncio
from pathlib import Path

import pytest

from dms_ingest.new_buckets import NewBuckets
from nexarch.core_client import RefusedByCoreApi
from nexarch.storage import BucketNotFound, StorageSettings, open_storage
from nexarch.threads import run_in_thread
from support.ingest import Ingest, sign_in
from support.services import CoreApi
from support.waiting import eventually


async def has_bucket(ingest: Ingest, slug: str) -> bool:
    async with open_storage(ingest.settings) as storage:
        try:
            return [stored async for stored in storage.list_objects(slug)] == []
        except BucketNotFound:
            return False


@pytest.mark.database
async def test_a_new_tenant_has_its_bucket_before_its_first_upload(core_api: CoreApi, ingest: Ingest) -> None:
    async def listening() -> bool:
        async with ingest.session.get(f"{ingest.url}/readyz") as response:
            return response.status == 200

    await eventually(listening)

    person = await sign_in(core_api)

    await eventually(lambda: has_bucket(ingest, person.tenant.slug))


async def test_one_that_cannot_be_made_does_not_keep_the_others(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("in the place of a bucket")

    async def admit(slug: str) -> None:
        if slug == "suspended":
            raise RefusedByCoreApi("The tenant is suspended.")

    async with open_storage(StorageSettings(storage_dir=tmp_path)) as storage:
        buckets = NewBuckets(storage, admit)
        making = asyncio.create_task(buckets.run())
        for slug in ("acme", None, "suspended", "beta"):
            buckets.tell(slug)

        await eventually(lambda: is_there(tmp_path / "beta"))
        making.cancel()

    assert not (tmp_path / "suspended").exists()


async def is_there(folder: Path) -> bool:
    return await run_in_thread(folder.exists)
