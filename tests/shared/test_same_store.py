"""The self-test of the object store, over a real core-api."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from nexarch.core_client import OtherStore
from nexarch.errors import NotReady
from nexarch.same_store import SameStore, difference
from nexarch.storage import StorageSettings, open_storage
from nexarch.storage.identity import OURS, read_identity, written_identity
from support.s3 import s3_settings
from support.seaweedfs import S3Server
from support.services import CoreApi
from support.waiting import eventually

DIR = {"STORAGE_DRIVER": "a", "STORAGE_DIR": "b"}
S3 = {"STORAGE_DRIVER": "c", "STORAGE_ENDPOINT": "d", "STORAGE_BUCKET": "e"}


@pytest.mark.parametrize(
    ("ours", "theirs", "named"),
    [
        (DIR, DIR | {"STORAGE_DIR": "x"}, "STORAGE_DIR differs"),
        (DIR, S3, "STORAGE_DRIVER differs"),
        (S3, S3 | {"STORAGE_ENDPOINT": "x"}, "STORAGE_ENDPOINT differs"),
        (S3, S3 | {"STORAGE_BUCKET": "x", "STORAGE_ENDPOINT": "x"}, "STORAGE_BUCKET and STORAGE_ENDPOINT differ"),
        (DIR, DIR, "STORAGE_DIR are the same, but lead to different places"),
    ],
)
def test_the_setting_that_differs_is_named(ours: Mapping[str, str], theirs: dict[str, str], named: str) -> None:
    for seen in (uuid4(), None):
        wrong = difference(uuid4(), ours, [OtherStore(module="dms_worker", store_id=seen, settings=theirs)])

        assert wrong is not None
        assert named in wrong
        assert "dms_worker" in wrong


def test_settings_may_differ_where_they_lead_to_one_store() -> None:
    store_id = uuid4()
    inside = S3 | {"STORAGE_ENDPOINT": "x"}

    assert difference(store_id, S3, [OtherStore(module="dms_worker", store_id=store_id, settings=inside)]) is None


async def test_of_those_that_write_an_id_at_once_one_is_first(tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:
        settings = StorageSettings(storage_dir=tmp_path)
        stores = [await opened.enter_async_context(open_storage(settings)) for _ in range(8)]
        nothing = await read_identity(stores[0])

        seen = await asyncio.gather(*(written_identity(store) for store in stores))

        assert nothing is None
        assert len(set(seen)) == 1
        assert isinstance(seen[0], UUID)
        assert await read_identity(stores[0]) == seen[0]
        left = [stored.key async for stored in stores[0].list_objects(OURS)]
        assert left == ["store/id"]


@asynccontextmanager
async def watching(
    core_api: CoreApi, module: str, settings: StorageSettings, *, writes: bool
) -> AsyncIterator[SameStore]:
    async with core_api.client(module) as core, open_storage(settings) as storage:
        watch = SameStore(storage, core, settings.fingerprints(), writes=writes)
        task = asyncio.create_task(watch.run())
        yield watch
        task.cancel()
        await asyncio.wait([task])


async def says(watch: SameStore, sentence: str) -> None:
    async def said() -> bool:
        try:
            await watch.check()
        except NotReady as error:
            return bool(sentence) and sentence in error.detail
        return not sentence

    await eventually(said, within_s=40)


@pytest.mark.database
async def test_who_starts_first_does_not_matter(core_api: CoreApi, tmp_path: Path) -> None:
    settings = StorageSettings(storage_dir=tmp_path)

    async with watching(core_api, "dms_worker", settings, writes=False) as worker:
        await says(worker, "No module has written to this object store yet")
        async with watching(core_api, "dms_ingest", settings, writes=True) as ingest:
            await says(ingest, "")
            await says(worker, "")


@pytest.mark.database
async def test_two_folders_are_told_to_both_until_they_are_one(core_api: CoreApi, tmp_path: Path) -> None:
    one, other = (StorageSettings(storage_dir=tmp_path / name) for name in ("one", "other"))

    async with watching(core_api, "dms_ingest", one, writes=True) as ingest:
        async with watching(core_api, "dms_worker", other, writes=False) as worker:
            await says(ingest, "dms_worker sees another object store than this module: STORAGE_DIR differs")
            await says(worker, "dms_ingest sees another object store than this module: STORAGE_DIR differs")
        async with watching(core_api, "dms_worker", one, writes=False) as worker:
            await says(worker, "")
            await says(ingest, "")


@pytest.mark.database
async def test_a_folder_that_was_replaced_by_another_is_told(core_api: CoreApi, tmp_path: Path) -> None:
    """The same path on two hosts: here the worker has the folder still that was moved away."""
    settings = StorageSettings(storage_dir=tmp_path / "objects")

    async with watching(core_api, "dms_worker", settings, writes=False) as worker:
        await says(worker, "yet")
        (tmp_path / "objects").rename(tmp_path / "moved")
        async with watching(core_api, "dms_ingest", settings, writes=True) as ingest:
            for watch in (ingest, worker):
                await says(watch, "STORAGE_DIR are the same, but lead to different places")


@pytest.mark.database
async def test_a_folder_that_cannot_be_used_is_told(core_api: CoreApi, tmp_path: Path) -> None:
    settings = StorageSettings(storage_dir=tmp_path / "objects")
    async with watching(core_api, "dms_ingest", settings, writes=True) as ingest:
        await says(ingest, "")
        damaged = tmp_path / "objects" / OURS / "store" / "id"

        damaged.write_bytes(b"no id")

    async with watching(core_api, "dms_worker", settings, writes=False) as worker:
        await says(worker, "is no id")


@pytest.mark.database
@pytest.mark.object_store
async def test_on_s3_the_setting_is_named_too(core_api: CoreApi, s3_server: S3Server) -> None:
    settings = s3_settings(s3_server)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"storage_bucket": s3_settings(s3_server).storage_bucket}, "STORAGE_BUCKET differs"),
        ({"storage_secret_key": "a-wrong-one"}, "STORAGE_SECRET_KEY"),
        ({"storage_access_key": "nobody"}, "STORAGE_ACCESS_KEY"),
    ]

    async with watching(core_api, "dms_ingest", settings, writes=True) as ingest:
        await says(ingest, "")
        for change, named in changes:
            wrong = StorageSettings(**settings.model_dump() | change)
            async with watching(core_api, "dms_worker", wrong, writes=False) as worker:
                await says(worker, named)
        async with watching(core_api, "dms_worker", settings, writes=False) as worker:
            await says(worker, "")
