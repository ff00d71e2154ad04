"""dms-ingest as a process of its own, killed where it hurts."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from dms_ingest.settings import Settings
from nexarch.db import Connection
from support.files import size_reaches
from support.ingest import (
    PDF,
    Person,
    ingest_settings,
    run_ingest,
    run_ingest_process,
    somebody_waits_for_a_lock,
    staged_file,
    stored_files,
    tenant_database,
)
from support.proxy import proxied
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20


@pytest.fixture
def settings(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> Settings:
    return ingest_settings(core_api, bus_dsn, tmp_path)


async def test_killed_between_the_object_and_the_commit_leaves_nothing_and_completes_later(
    core_api: CoreApi, editor: Person, settings: Settings
) -> None:
    content = PDF + os.urandom(MIB)
    async with tenant_database(core_api, editor) as holder, tenant_database(core_api, editor) as conn:
        async with run_ingest_process(settings) as (ingest, process):
            upload_id = await ingest.whole_upload(editor, content)
            # Its transaction cannot add the document while somebody else holds the table; the object lies there then.
            transaction = holder.transaction()
            await transaction.start()
            await holder.execute("LOCK TABLE documents IN SHARE MODE")
            asking = asyncio.create_task(ingest.complete(editor, upload_id))
            await eventually(lambda: somebody_waits_for_a_lock(conn))

            await process.kill()
            await transaction.rollback()
            with pytest.raises(aiohttp.ClientError):
                await asking

        assert len(stored_files(settings, editor)) == 1
        await eventually(lambda: nobody_else_is_there(conn))
        assert await rows(conn) == (0, 0, 0, 0)
        async with run_ingest(settings) as ingest:
            status, document = await ingest.complete(editor, upload_id)

        assert (status, document["current_revision"]["sha256"]) == (200, hashlib.sha256(content).hexdigest())
        assert await rows(conn) == (1, 1, 1, 1)


async def test_killed_between_the_commit_and_the_ring_leaves_everything_for_the_sweep_to_find(
    core_api: CoreApi, editor: Person, settings: Settings
) -> None:
    async with (
        proxied(settings.bus_dsn.get_secret_value()) as (bus_dsn, bus),
        tenant_database(core_api, editor) as conn,
    ):
        behind_proxy = settings.model_copy(update={"bus_dsn": SecretStr(bus_dsn)})
        async with run_ingest_process(behind_proxy) as (ingest, process):
            await ingest.upload(editor, PDF)
            upload_id = await ingest.whole_upload(editor, PDF)
            bus.swallow_everything()

            status, document = await ingest.complete(editor, upload_id)
            await process.kill()

        assert status == 200
        assert await rows(conn) == (2, 2, 2, 2)
        async with run_ingest(settings) as ingest:
            again, same = await ingest.complete(editor, upload_id)

    assert (again, same["id"]) == (200, document["id"])
    _, tenant = await core_api.call("GET", f"/v1/tenants/{editor.tenant.slug}")
    assert tenant["active_at"] is not None  # armed before the commit: the sweep looks there within a minute


async def test_killed_while_it_receives_loses_no_byte_that_it_acknowledged(editor: Person, settings: Settings) -> None:
    content = PDF + os.urandom(4 * MIB)
    half = len(content) // 2
    async with run_ingest_process(settings) as (ingest, process):
        upload_id = await ingest.open_upload(editor, len(content), sha256=hashlib.sha256(content).hexdigest())
        await ingest.put(editor, upload_id, content[:half])
        sending = asyncio.create_task(ingest.put(editor, upload_id, and_no_more(content[half:-1]), half))
        staged = staged_file(settings, editor, upload_id)
        await eventually(lambda: size_reaches(staged, half + MIB))  # and the rest is on its way

        await process.kill()
        with contextlib.suppress(aiohttp.ClientError):
            await sending

    async with run_ingest(settings) as ingest:
        _, upload = await ingest.call(editor, "GET", f"/v1/uploads/{upload_id}")
        assert upload["received"][0]["start"] == 0
        assert upload["received"][0]["end"] >= half
        for part in upload["missing"]:
            await ingest.put(editor, upload_id, content[part["start"] : part["end"]], part["start"])
        status, _ = await ingest.complete(editor, upload_id)
        assert status == 200


async def and_no_more(content: bytes) -> AsyncIterator[bytes]:
    yield content
    await asyncio.Event().wait()  # for a last byte, until the line breaks


async def nobody_else_is_there(conn: Connection) -> bool:
    sql = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'dms-ingest'
    """
    return bool(await conn.fetchval(sql) == 0)


async def rows(conn: Connection) -> tuple[int, ...]:
    """How many documents, revisions, jobs and changes of usage there are."""
    sql = """
        SELECT (SELECT count(*) FROM documents) AS documents, (SELECT count(*) FROM file_revisions) AS revisions,
            (SELECT count(*) FROM processing_jobs) AS jobs, (SELECT count(*) FROM usage_outbox) AS usage
    """
    return tuple((await conn.fetch(sql))[0])
