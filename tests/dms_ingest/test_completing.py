"""An upload is completed once, however many ask; and what happens beside a complete that takes long or cannot end."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nexarch.db import Connection, connect
from support.core_line import run_ingest_over_line
from support.disk import disk_at
from support.files import open_files
from support.ingest import (
    PDF,
    Ingest,
    Person,
    a_pdf,
    ingest_settings,
    run_ingest,
    sign_in,
    somebody_waits_for_a_lock,
    staged_file,
    stored_files,
    tenant_database,
)
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database


async def test_completing_again_or_at_once_gives_the_same_document(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    content = a_pdf(2_000_000)
    upload_id = await ingest.whole_upload(editor, content)

    at_once = await asyncio.gather(*(ingest.complete(editor, upload_id) for _ in range(5)))
    later = await ingest.complete(editor, upload_id)

    answers = [*at_once, later]
    assert [status for status, _ in answers] == [200] * 6
    assert len({document["current_revision"]["id"] for _, document in answers}) == 1
    assert len(stored_files(ingest.settings, editor)) == 1
    async with tenant_database(core_api, editor) as conn:
        assert await conn.fetchval("SELECT count(*) FROM file_revisions") == 1
        assert await conn.fetchval("SELECT count(*) FROM usage_outbox") == 1


async def test_of_two_processes_that_complete_at_once_one_commits_and_both_answer_its_document(
    core_api: CoreApi, bus_dsn: str, ingest: Ingest, editor: Person
) -> None:
    content = a_pdf(2_000_000)
    upload_id = await ingest.whole_upload(editor, content)

    async with run_ingest(ingest.settings) as other:
        answers = await asyncio.gather(*(service.complete(editor, upload_id) for service in (ingest, other)))

    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["id"] == answers[1][1]["id"]
    assert len(stored_files(ingest.settings, editor)) == 1


@asynccontextmanager
async def held_before_its_commit(
    core_api: CoreApi, ingest: Ingest, person: Person
) -> AsyncIterator[tuple[str, asyncio.Task[tuple[int, object]], Connection]]:
    """An upload whose complete has stored the object and cannot add the document until the block ends."""
    upload_id = await ingest.whole_upload(person, PDF)
    async with tenant_database(core_api, person) as holder, tenant_database(core_api, person) as conn:
        async with holder.transaction():
            await holder.execute("LOCK TABLE documents IN SHARE MODE")
            completing = asyncio.create_task(ingest.complete(person, upload_id))
            await eventually(lambda: somebody_waits_for_a_lock(conn))
            yield upload_id, completing, conn
        await completing


async def test_while_it_completes_an_upload_takes_no_bytes_and_cannot_be_ended(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    async with held_before_its_commit(core_api, ingest, editor) as (upload_id, completing, _):
        put, put_problem = await ingest.put(editor, upload_id, PDF)
        deleted, delete_problem = await ingest.call(editor, "DELETE", f"/v1/uploads/{upload_id}")
        read, upload = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")

    assert (put, put_problem["type"]) == (409, "/problems/upload-completing")
    assert (deleted, delete_problem["type"]) == (409, "/problems/upload-completing")
    assert (read, upload["state"]) == (200, "open")
    assert completing.result()[0] == 200


async def test_an_upload_ended_elsewhere_meanwhile_leaves_neither_object_nor_document(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    async with held_before_its_commit(core_api, ingest, editor) as (_, completing, conn):
        assert len(stored_files(ingest.settings, editor)) == 1
        await conn.execute("UPDATE upload_sessions SET state = 'aborted'")

    assert completing.result()[0] == 404
    assert stored_files(ingest.settings, editor) == []
    async with tenant_database(core_api, editor) as conn:
        assert await conn.fetchval("SELECT count(*) FROM documents") == 0
        assert await conn.fetchval("SELECT count(*) FROM usage_outbox") == 0


async def test_a_target_that_is_deleted_meanwhile_leaves_no_object(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)
    upload_id = await ingest.whole_upload(editor, PDF, document_id=document["id"])
    async with tenant_database(core_api, editor) as conn:
        await conn.execute("UPDATE documents SET deleted_at = now()")

    status, problem = await ingest.complete(editor, upload_id)

    assert (status, problem["type"]) == (404, "/problems/document-not-found")
    assert len(stored_files(ingest.settings, editor)) == 1


async def test_without_core_api_nothing_is_sealed_and_complete_works_when_it_is_back(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    async with run_ingest_over_line(core_api, bus_dsn, tmp_path) as (ingest, core_line):
        upload_id = await ingest.whole_upload(editor, PDF)
        await core_line.close()

        away, problem = await ingest.complete(editor, upload_id)
        await core_line.open()
        status, _ = await ingest.complete(editor, upload_id)

        assert (away, problem["type"]) == (503, "/problems/core-api-away")
        assert status == 200
        assert len(stored_files(ingest.settings, editor)) == 1


async def test_the_tenant_is_marked_active_before_the_commit_so_that_the_sweep_looks_at_it_soon(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    slug = editor.tenant.slug
    await registry.execute("UPDATE tenants SET active_at = now() - interval '1 day' WHERE slug = $1", slug)

    async with held_before_its_commit(core_api, ingest, editor):
        sql = "SELECT active_at > now() - interval '1 minute' FROM tenants WHERE slug = $1"
        is_active = await registry.fetchval(sql, slug)

    await registry.close()
    assert is_active is True


async def test_a_full_store_is_told_and_takes_nothing_and_the_upload_can_be_completed_later(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path
) -> None:
    content = PDF + os.urandom(6 << 20)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    with disk_at(tmp_path / "objects") as disk:
        async with run_ingest(settings) as ingest:
            upload_id = await ingest.whole_upload(editor, content)
            disk.resize(4 << 20)

            full, problem = await ingest.complete(editor, upload_id)
            left = stored_files(settings, editor)
            disk.resize()
            status, document = await ingest.complete(editor, upload_id)

    assert (full, problem["type"], left) == (507, "/problems/insufficient-storage", [])
    assert status == 200
    assert document["current_revision"]["sha256"] == hashlib.sha256(content).hexdigest()


async def test_an_upload_of_another_tenant_is_completed_before_the_last_of_a_crowd(
    core_api: CoreApi, bus_dsn: str, editor: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dms_ingest.completing._AT_ONCE", 1)  # so that all are completed one after the other
    stranger = await sign_in(core_api)
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path)) as ingest:
        async with held_before_its_commit(core_api, ingest, editor):
            waiting = [await waits_for_its_turn(ingest, person) for person in [editor, editor, editor, stranger]]
        answers = await asyncio.gather(*waiting)

    *crowd, other = [document["id"] for _, document in answers]
    assert other < max(crowd), "ids go with the time, and are given when a turn begins"


async def waits_for_its_turn(ingest: Ingest, person: Person) -> asyncio.Task[tuple[int, Any]]:
    """An upload whose complete has its staged file to itself, and goes no further."""
    upload_id = await ingest.whole_upload(person, PDF)
    completing = asyncio.create_task(ingest.complete(person, upload_id))
    staged = str(staged_file(ingest.settings, person, upload_id))

    async def is_open() -> bool:
        return staged in open_files()

    await eventually(is_open)
    return completing
