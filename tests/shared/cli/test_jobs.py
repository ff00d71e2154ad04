"""`nexarch upload --wait`, `documents retry` and `nexarch jobs` with a worker that runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.command import Command
from support.ingest import Ingest, Person, sign_in
from support.services import CoreApi
from support.user_command import user_command
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database


@pytest.fixture
async def editor(core_api: CoreApi) -> Person:
    """An admin, who may see the jobs too."""
    return await sign_in(core_api, role="admin")


@pytest.fixture
async def admin(tmp_path: Path, core_api: CoreApi, editor: Person, ingest: Ingest) -> AsyncIterator[Command]:
    """Their command, with a worker at work."""
    async with run_worker(worker_settings(core_api, ingest.settings)) as url:
        command = user_command(tmp_path / "home", core_api, editor, ingest.url)
        command.variables["NEXARCH_WORKER_URL"] = url
        yield command


async def test_an_upload_that_waits_shows_the_processed_document_and_its_job(admin: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Das Möbiusband hat nur eine Seite.\n")

    upload = await admin("upload", tmp_path / "a.txt", "--wait", "--json")
    jobs = await admin("jobs", "list", "--status", "succeeded", "--json")
    job = await admin("jobs", "show", jobs.json["items"][0]["id"])

    assert upload.code == 0, upload.err
    document = upload.json["items"][0]["document"]
    assert document["processing_state"] == "processed"
    assert [item["job_type"] for item in jobs.json["items"]] == ["extract_text"]
    assert document["id"] in job.out


async def test_a_document_that_cannot_be_read_ends_with_1_and_its_reason(admin: Command, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing follows")

    upload = await admin("upload", tmp_path / "a.pdf", "--wait", "--json")
    document_id = upload.json["items"][0]["document"]["id"]
    retried = await admin("documents", "retry", document_id, "--json")
    again = await admin("documents", "show", document_id, "--wait")
    dead = await admin("jobs", "list", "--status", "dead_letter")

    assert upload.code == 1
    assert upload.err.count("\n") == 1
    assert "Stored, but not processed:" in upload.err
    assert retried.code == 0, retried.err
    assert again.code == 1
    assert "failed" in again.out
    assert "dead_letter" in dead.out


async def test_dead_letters_are_requeued_discarded_and_cancelled(
    admin: Command, core_api: CoreApi, editor: Person, tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing follows")
    await admin("upload", tmp_path / "a.pdf", "--wait")
    dead = (await admin("jobs", "list", "--status", "dead_letter", "--json")).json["items"][0]["id"]
    admin.variables["NEXARCH_OPERATOR_TOKEN"] = core_api.operator_token
    tenant = ("--tenant", editor.tenant.slug)

    shown = await admin("jobs", "show", dead, *tenant)
    discarded = await admin("jobs", "discard", dead, *tenant, "--json")
    refused = await admin("jobs", "requeue", dead)
    everything = await admin("jobs", "requeue", "--all-of", "extract_text", "--json")
    ended = await admin("jobs", "cancel", dead)
    neither = await admin("jobs", "requeue")

    assert "attempt" in shown.out
    assert (discarded.code, discarded.json["status"]) == (0, "failed")
    assert refused.code == 1
    assert "only a dead letter" in refused.err
    assert everything.json == {"requeued": 0}
    assert ended.code == 1
    assert neither.code == 2
