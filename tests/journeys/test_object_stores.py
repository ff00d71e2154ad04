"""dms-ingest and dms-worker on one object store: an S3 server, and what they say when it is not one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nexarch.storage import StorageSettings, open_storage
from nexarch.up.samples import make_samples
from support.ingest import Ingest, Person, ingest_settings, run_ingest, sign_in
from support.s3 import own_bucket, s3_variables
from support.seaweedfs import S3Server
from support.services import CoreApi
from support.waiting import eventually
from support.worker_service import run_worker, worker_settings

pytestmark = [pytest.mark.database, pytest.mark.object_store]


@pytest.fixture
async def on_s3(core_api: CoreApi, bus_dsn: str, s3_server: S3Server, tmp_path: Path) -> AsyncIterator[Ingest]:
    """A dms-ingest whose objects lie on an S3 server."""
    settings = ingest_settings(core_api, bus_dsn, tmp_path, storage_dir=None, **s3_variables(s3_server))
    async with run_ingest(settings) as running:
        yield running


@pytest.fixture
async def person(core_api: CoreApi) -> Person:
    return await sign_in(core_api, role="admin")


async def stored(settings: StorageSettings, person: Person) -> list[tuple[str, int]]:
    async with open_storage(settings) as storage:
        return [(found.key, found.size_bytes) async for found in storage.list_objects(person.tenant.slug)]


async def test_a_document_lives_on_s3_from_upload_to_purge(
    core_api: CoreApi, on_s3: Ingest, person: Person, tmp_path: Path
) -> None:
    async with run_worker(worker_settings(core_api, on_s3.settings)):
        sample = next(sample for sample in make_samples(tmp_path / "samples") if sample.finds)
        original = sample.file.read_bytes()
        document = await on_s3.upload(person, original, filename=sample.file.name, mime_type=sample.mime_type)

        async def found() -> bool:
            _, page = await on_s3.call(person, "GET", "/v1/search", params={"q": sample.finds[0]})
            return [hit["document_id"] for hit in page["items"]] == [document["id"]]

        await eventually(found, within_s=40)
        objects = await stored(on_s3.settings, person)
        url = f"{on_s3.url}/v1/documents/{document['id']}/content"
        async with on_s3.session.get(url, headers=person.headers) as response:
            whole = await response.read()
        async with on_s3.session.get(url, headers=person.headers | {"Range": "bytes=10-99"}) as response:
            part = await response.read()
        await on_s3.call(person, "DELETE", f"/v1/documents/{document['id']}")
        status, _ = await on_s3.call(person, "POST", f"/v1/documents/{document['id']}/purge")

    assert [key.split("/")[1] for key, _ in objects] == [document["id"]]
    assert whole == original
    assert part == original[10:100]
    assert status == 204
    assert await stored(on_s3.settings, person) == []


async def test_a_document_of_several_parts_comes_back_from_s3(on_s3: Ingest, person: Person) -> None:
    original = b"%PDF-1.7\n" + bytes(range(256)) * (20 << 12)

    document = await on_s3.upload(person, original)

    async with on_s3.session.get(
        f"{on_s3.url}/v1/documents/{document['id']}/content", headers=person.headers
    ) as response:
        assert await response.read() == original


async def reasons(ingest: Ingest, url: str) -> Any:  # noqa: ANN401 - JSON
    async with ingest.session.get(f"{url}/readyz") as response:
        body = await response.json()
        assert (response.status == 503) == bool(body["failed"])
        return body["failed"]


async def storage_says(ingest: Ingest, url: str, sentence: str) -> None:
    async def said() -> bool:
        failed = await reasons(ingest, url)
        return sentence in failed.get("storage", "") if sentence else "storage" not in failed

    await eventually(said, within_s=40)


async def test_two_folders_make_both_services_unready_and_name_the_setting(
    core_api: CoreApi, ingest: Ingest, tmp_path: Path
) -> None:
    settings = worker_settings(core_api, ingest.settings, storage_dir=tmp_path / "elsewhere")
    await storage_says(ingest, ingest.url, "")

    async with run_worker(settings) as worker_url:
        await storage_says(ingest, worker_url, "STORAGE_DIR differs")
        await storage_says(ingest, ingest.url, "STORAGE_DIR differs")
    async with run_worker(worker_settings(core_api, ingest.settings)) as worker_url:
        await storage_says(ingest, worker_url, "")
        await storage_says(ingest, ingest.url, "")


async def test_two_buckets_and_a_wrong_secret_are_named(core_api: CoreApi, on_s3: Ingest) -> None:
    await storage_says(on_s3, on_s3.url, "")

    async with run_worker(worker_settings(core_api, on_s3.settings, storage_bucket=own_bucket())) as worker_url:
        await storage_says(on_s3, worker_url, "STORAGE_BUCKET differs")
        await storage_says(on_s3, on_s3.url, "STORAGE_BUCKET differs")
    async with run_worker(worker_settings(core_api, on_s3.settings, storage_secret_key="wrong")) as worker_url:
        await storage_says(on_s3, worker_url, "STORAGE_SECRET_KEY")
