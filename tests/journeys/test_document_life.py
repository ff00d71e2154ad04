"""The main job over real HTTP and NOTIFY: core-api, dms-ingest and dms-worker together."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from fpdf import FPDF

from nexarch.crypto.layout import NXO1
from nexarch.tracing import new_trace
from nexarch.up.samples import make_samples
from support.ingest import Ingest, Person, sign_in, stored_files, stored_folder, tenant_database
from support.processes import run_service
from support.services import CoreApi, owner_database
from support.waiting import eventually
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database

LONG_TEXT = "".join(f"Messwert {number:07d} ohne Befund.\n" for number in range(150_000)).encode()


@pytest.fixture
async def person(core_api: CoreApi) -> Person:
    return await sign_in(core_api, role="admin")


async def document_in(ingest: Ingest, person: Person, document_id: str, states: set[str]) -> Any:  # noqa: ANN401
    """The document, as soon as it is in one of the states."""
    document: Any = None

    async def there() -> bool:
        nonlocal document
        _, document = await ingest.call(person, "GET", f"/v1/documents/{document_id}")
        return document["processing_state"] in states

    await eventually(there, within_s=40)
    return document


async def processed(ingest: Ingest, person: Person, document_id: str) -> Any:  # noqa: ANN401
    return await document_in(ingest, person, document_id, {"processed", "failed"})


async def found(ingest: Ingest, person: Person, query: str) -> list[str]:
    status, page = await ingest.call(person, "GET", "/v1/search", params={"q": query})
    assert status == 200, page
    return [hit["document_id"] for hit in page["items"]]


async def content(ingest: Ingest, person: Person, document_id: str) -> bytes:
    url = f"{ingest.url}/v1/documents/{document_id}/content"
    async with ingest.session.get(url, headers=person.headers) as response:
        assert response.status == 200
        return await response.read()


async def test_every_sample_is_processed_found_and_comes_back_as_it_went_in(
    core_api: CoreApi, ingest: Ingest, person: Person, tmp_path: Path
) -> None:
    async with run_worker(worker_settings(core_api, ingest.settings)):
        for sample in make_samples(tmp_path / "samples"):
            original = sample.file.read_bytes()

            document = await ingest.upload(person, original, filename=sample.file.name, mime_type=sample.mime_type)
            document = await processed(ingest, person, document["id"])

            error = document["processing_error"]
            assert (error["code"] if error else None) == sample.fails, sample.file.name
            for query in sample.finds:
                assert await found(ingest, person, query) == [document["id"]], (sample.file.name, query)
            assert await content(ingest, person, document["id"]) == original


async def test_a_file_that_cannot_be_read_fails_once_with_its_reason_and_can_be_tried_again(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    locked = FPDF()
    locked.set_encryption(owner_password="owner", user_password="user")
    locked.add_page()
    async with run_worker(worker_settings(core_api, ingest.settings)) as worker_url:
        document = await ingest.upload(person, bytes(locked.output()))

        failed = await processed(ingest, person, document["id"])
        async with ingest.session.get(f"{worker_url}/v1/jobs", headers=person.headers) as response:
            (job,) = (await response.json())["items"]
        assert failed["processing_error"]["code"] == "password-required"
        assert (job["status"], job["attempts"], job["last_error"]["code"]) == ("dead_letter", 1, "password-required")

        status, _ = await ingest.call(person, "POST", f"/v1/documents/{document['id']}/retry")
        again = await processed(ingest, person, document["id"])
        assert status == 202
        assert again["processing_error"]["code"] == "password-required"


@pytest.mark.parametrize("what", ["object", "bytes", "key"])
async def test_a_stored_file_that_cannot_be_opened_fails_at_the_first_attempt(
    core_api: CoreApi, ingest: Ingest, person: Person, what: str
) -> None:
    document = await ingest.upload(person, b"a text", mime_type="text/plain")
    (file,) = (file for file in stored_files(ingest.settings, person) if document["id"] in str(file))
    match what:
        case "object":
            file.unlink()
        case "bytes":
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        case "key":
            async with owner_database(core_api, person.tenant) as conn:
                await conn.execute("INSERT INTO kek_versions (version) VALUES (99)")
                await conn.execute("UPDATE file_revisions SET kek_version = 99")

    async with run_worker(worker_settings(core_api, ingest.settings)) as worker_url:
        failed = await processed(ingest, person, document["id"])
        async with ingest.session.get(f"{worker_url}/v1/jobs", headers=person.headers) as response:
            (job,) = (await response.json())["items"]

    assert failed["processing_error"]["code"] == "stored-object-unreadable"
    assert (job["status"], job["attempts"]) == ("dead_letter", 1)


async def test_a_document_whose_attempt_failed_for_our_fault_is_queued_again_until_one_succeeds(
    core_api: CoreApi, ingest: Ingest, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await ingest.upload(person, b"a patient text", mime_type="text/plain", filename="a.txt")
    async with run_worker(worker_settings(core_api, ingest.settings)), tenant_database(core_api, person) as conn:

        async def failed_once() -> bool:
            sql = "SELECT status = 'pending' AND attempts = 1 FROM processing_jobs"
            return bool(await conn.fetchval(sql))

        with monkeypatch.context() as broken:
            broken.setattr("sys.executable", "/nowhere/python")
            await eventually(failed_once)
        _, waiting = await ingest.call(person, "GET", f"/v1/documents/{document['id']}")
        await conn.execute("UPDATE processing_jobs SET available_at = now()")
        await ingest.upload(person, b"rings the bell", mime_type="text/plain", filename="b.txt")
        done = await processed(ingest, person, document["id"])

    assert (waiting["processing_state"], done["processing_state"]) == ("queued", "processed")


async def test_when_a_worker_is_killed_in_the_middle_of_a_job_another_finishes_it(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    settings = worker_settings(core_api, ingest.settings, stale_after_s=3)
    document = await ingest.upload(person, LONG_TEXT, filename="lang.txt", mime_type="text/plain")
    async with run_service("dms_worker", settings) as victim:
        await document_in(ingest, person, document["id"], {"processing"})
        await victim.kill()

    async with run_worker(settings):
        done = await processed(ingest, person, document["id"])

    async with tenant_database(core_api, person) as conn:
        (job,) = await conn.fetch("SELECT status, attempts FROM processing_jobs")
    assert done["processing_state"] == "processed"
    assert await found(ingest, person, "0149999") == [document["id"]]
    assert tuple(job) == ("succeeded", 2)


async def test_a_text_that_takes_longer_to_write_than_a_lease_lasts_is_written_at_the_first_attempt(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    await slow_texts_down(core_api, person, seconds=5)
    async with run_worker(worker_settings(core_api, ingest.settings, stale_after_s=3)):
        document = await ingest.upload(person, b"a large text", filename="a.txt", mime_type="text/plain")

        done = await processed(ingest, person, document["id"])

    async with tenant_database(core_api, person) as conn:
        (job,) = await conn.fetch("SELECT status, attempts FROM processing_jobs")
    assert done["processing_state"] == "processed"
    assert tuple(job) == ("succeeded", 1)


async def slow_texts_down(core_api: CoreApi, person: Person, *, seconds: int) -> None:
    """Let each part of a text take so long to be stored, as a large one does on a busy server."""
    sql = f"""
        CREATE FUNCTION sleep_first() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END';
        CREATE TRIGGER sleep_first BEFORE INSERT ON document_texts FOR EACH ROW EXECUTE FUNCTION sleep_first();
    """
    async with owner_database(core_api, person.tenant) as conn:
        await conn.execute(sql)


async def test_a_worker_that_is_told_to_stop_gives_its_job_back_with_the_attempt(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    settings = worker_settings(core_api, ingest.settings, grace_period_s=0)
    document = await ingest.upload(person, LONG_TEXT, filename="lang.txt", mime_type="text/plain")
    async with run_service("dms_worker", settings) as stopped:
        await document_in(ingest, person, document["id"], {"processing"})
        code = await stopped.stop()

    async with tenant_database(core_api, person) as conn:
        (job,) = await conn.fetch("SELECT status, attempts FROM processing_jobs")
    assert code == 0
    assert tuple(job) == ("pending", 0)


async def test_usage_is_the_bytes_stored_after_uploads_revisions_and_deletes(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    objects = stored_folder(ingest.settings, person) / "documents"

    async def usage_is_right() -> bool:
        _, usage = await core_api.call("GET", "/v1/usage", params={"tenant": person.tenant.slug})
        reported = sum(item["value"] for item in usage["items"] if item["metric"] == "storage_bytes")
        stored = sum(NXO1.plaintext_size(file.stat().st_size) for file in objects.rglob("*") if file.is_file())
        return bool(reported == stored == expected)

    documents = [await ingest.upload(person, b"%PDF-1.7\n" + bytes(size)) for size in (0, 1_000, 300_000)]
    await ingest.upload(person, b"%PDF-1.7\nsecond", document_id=documents[1]["id"])
    expected = 9 + 1_009 + 300_009 + 15
    await eventually(usage_is_right)

    # In the trash it still takes its place; purged it does not.
    await ingest.call(person, "DELETE", f"/v1/documents/{documents[1]['id']}")
    await eventually(usage_is_right)
    status, _ = await ingest.call(person, "POST", f"/v1/documents/{documents[1]['id']}/purge")
    expected -= 1_009 + 15
    assert status == 204
    await eventually(usage_is_right)


async def test_nothing_of_a_suspended_tenant_is_processed_until_it_is_resumed(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    other = await sign_in(core_api)
    document = await ingest.upload(person, b"from a suspended tenant", filename="a.txt", mime_type="text/plain")
    await core_api.call("POST", f"/v1/tenants/{person.tenant.slug}/suspend")

    async with run_worker(worker_settings(core_api, ingest.settings)):
        witness = await ingest.upload(other, b"from another tenant", filename="b.txt", mime_type="text/plain")
        await processed(ingest, other, witness["id"])
        status, problem = await ingest.call(person, "GET", f"/v1/documents/{document['id']}")
        await core_api.call("POST", f"/v1/tenants/{person.tenant.slug}/resume")
        await ingest.upload(person, b"rings again", filename="c.txt", mime_type="text/plain")
        resumed = await processed(ingest, person, document["id"])

    assert (status, problem["reason"]) == (403, "tenant-suspended")
    assert resumed["processing_state"] == "processed"


async def test_what_waited_for_a_flag_is_processed_as_soon_as_the_flag_is_on(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> None:
    other = await sign_in(core_api)
    document = await ingest.upload(person, b"from a tenant without us", filename="a.txt", mime_type="text/plain")
    await core_api.set_flag("dms", enabled_for_all=False, tenants=[other.tenant.slug])

    async with run_worker(worker_settings(core_api, ingest.settings)):
        witness = await ingest.upload(other, b"from another tenant", filename="b.txt", mime_type="text/plain")
        await processed(ingest, other, witness["id"])
        status, problem = await ingest.call(person, "GET", f"/v1/documents/{document['id']}")
        await core_api.set_flag("dms", enabled_for_all=True)
        served = await processed(ingest, person, document["id"])  # no ring, and sooner than the sweep would come

    assert (status, problem["reason"]) == (403, "module-not-active")
    assert served["processing_state"] == "processed"


async def test_the_trace_of_an_upload_goes_on_in_its_job(core_api: CoreApi, ingest: Ingest, person: Person) -> None:
    trace = new_trace()
    upload_id = await ingest.open_upload(person, 5, filename="a.txt", mime_type="text/plain")
    await ingest.put(person, upload_id, b"hello")

    status, _ = await ingest.call(
        person, "POST", f"/v1/uploads/{upload_id}/complete", headers={"traceparent": str(trace)}
    )

    async with tenant_database(core_api, person) as conn:
        carried = await conn.fetchval("SELECT traceparent FROM processing_jobs")
    assert status == 200
    assert carried.split("-")[1] == trace.trace_id


async def test_a_digest_of_all_that_came_out_is_the_digest_that_the_document_says(
    ingest: Ingest, person: Person
) -> None:
    original = io.BytesIO(b"%PDF-1.7\n" + bytes(range(256)) * 3_000).getvalue()

    document = await ingest.upload(person, original)

    assert document["current_revision"]["sha256"] == hashlib.sha256(original).hexdigest()
    assert (
        hashlib.sha256(await content(ingest, person, document["id"])).hexdigest()
        == (document["current_revision"]["sha256"])
    )
