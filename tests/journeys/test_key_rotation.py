"""A tenant's key is rotated while people upload and download: nothing stops, nothing is rewritten, nothing is lost."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dms_ingest import downloads
from dms_ingest.revisions import SealedRevision
from dms_worker.job_types import PermanentError, Snooze
from nexarch.core_client import CoreClient, TenantKey
from nexarch.db import Connection, connect
from support.ingest import Ingest, Person, a_pdf, stored_files
from support.rotating import content, rewrap, rotate, states
from support.services import CoreApi
from support.waiting import eventually
from support.worker_service import run_worker, worker_settings

pytestmark = pytest.mark.database

Json = dict[str, Any]


def times_and_bytes(files: list[Path]) -> dict[Path, tuple[int, bytes]]:
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


async def test_uploads_and_downloads_go_on_while_keys_are_rotated_and_no_object_is_touched(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection
) -> None:
    contents = [a_pdf() for _ in range(6)]
    documents = [await ingest.upload(editor, each) for each in contents]
    before = times_and_bytes(stored_files(ingest.settings, editor))
    stop = asyncio.Event()

    async def keep_downloading() -> int:
        rounds = 0
        while not stop.is_set():
            for document, expected in zip(documents, contents, strict=True):
                assert await content(ingest, editor, document) == expected
            rounds += 1
        return rounds

    async def keep_uploading() -> list[tuple[Json, bytes]]:
        made = []
        while not stop.is_set():
            each = a_pdf()
            made.append((await ingest.upload(editor, each), each))
        return made

    async def all_retired_but(version: int) -> bool:
        return await states(core_api, editor) == {version: "active"} | dict.fromkeys(range(1, version), "retired")

    async with run_worker(worker_settings(core_api, ingest.settings)):
        downloading = asyncio.create_task(keep_downloading())
        uploading = [asyncio.create_task(keep_uploading()) for _ in range(3)]
        for version in (2, 3, 4):
            await rotate(core_api, editor)
            await eventually(lambda version=version: all_retired_but(version), within_s=90)  # type: ignore[misc]
        stop.set()
        rounds = await downloading
        uploaded = [pair for task in uploading for pair in await task]

    assert rounds > 0
    assert len(uploaded) >= 3
    for document, expected in [*zip(documents, contents, strict=True), *uploaded]:
        assert await content(ingest, editor, document) == expected
    assert times_and_bytes(list(before)) == before
    assert {row[0] for row in await conn.fetch("SELECT DISTINCT kek_version FROM file_revisions")} == {4}


async def test_a_rotated_key_is_seen_to_at_once_though_the_period_is_long(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    await ingest.upload(editor, a_pdf(100))

    async def done() -> bool:
        return await states(core_api, editor) == {2: "active", 1: "retired"}

    async with run_worker(worker_settings(core_api, ingest.settings, rewrap_every_s=86400)):
        await rotate(core_api, editor)
        await eventually(done, within_s=30)


async def test_a_complete_that_began_before_the_rotation_and_ends_after_the_retirement_is_readable(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = a_pdf()
    upload = await ingest.open_upload(editor, len(expected))
    await ingest.put(editor, upload, expected)
    asked = asyncio.Event()
    go_on = asyncio.Event()
    given = CoreClient.kek

    async def slowly(self: CoreClient, slug: str, version: int | None = None) -> TenantKey:
        key = await given(self, slug, version)
        if not asked.is_set():
            asked.set()
            await go_on.wait()
        return key

    monkeypatch.setattr(CoreClient, "kek", slowly)
    completing = asyncio.create_task(ingest.complete(editor, upload))
    await asked.wait()
    await rotate(core_api, editor)
    await rewrap(core_api, editor)
    assert await states(core_api, editor) == {2: "active", 1: "retired"}

    go_on.set()
    status, document = await completing

    assert status == 200, document
    assert await conn.fetchval("SELECT kek_version FROM file_revisions") == 2
    assert await content(ingest, editor, document) == expected


async def test_documents_that_share_an_object_are_all_readable_once_the_old_key_is_gone(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection
) -> None:
    await conn.execute("UPDATE tenant_settings SET duplicates = 'link'")
    expected = a_pdf()
    documents = [await ingest.upload(editor, expected) for _ in range(2)]

    await rotate(core_api, editor)
    await rewrap(core_api, editor)
    documents.append(await ingest.upload(editor, expected))

    assert await states(core_api, editor) == {2: "active", 1: "retired"}
    assert len(stored_files(ingest.settings, editor)) == 1
    for document in documents:
        assert await content(ingest, editor, document) == expected


async def test_a_download_whose_row_was_read_before_its_key_was_wrapped_anew_goes_on(
    core_api: CoreApi, ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = a_pdf()
    document = await ingest.upload(editor, expected)
    read: list[int] = []
    dek_of = downloads.revision_dek

    async def after_a_rotation(core: CoreClient, tenant: str, tenant_id: UUID, revision: SealedRevision) -> bytes:
        read.append(revision.kek_version)
        if len(read) == 1:
            await rotate(core_api, editor)
            await rewrap(core_api, editor)
        return await dek_of(core, tenant, tenant_id, revision)

    monkeypatch.setattr(downloads, "revision_dek", after_a_rotation)

    assert await content(ingest, editor, document) == expected
    assert read == [1, 2]


@pytest.mark.parametrize("asked_before", [0, 2], ids=["before the old key is asked for", "after the new one came"])
async def test_a_revision_is_restored_while_the_key_is_rotated(
    core_api: CoreApi, ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch, asked_before: int
) -> None:
    expected = a_pdf()
    document = await ingest.upload(editor, expected)
    await ingest.upload(editor, a_pdf(), document_id=document["id"])
    given, asked = CoreClient.kek, 0

    async def around_a_rotation(self: CoreClient, slug: str, version: int | None = None) -> TenantKey:
        nonlocal asked
        asked += 1
        if asked == 1 and asked_before == 0:
            await rotate_to_the_end()
        key = await given(self, slug, version)
        if asked == asked_before:
            await rotate_to_the_end()
        return key

    async def rotate_to_the_end() -> None:
        with monkeypatch.context() as as_it_was:
            as_it_was.setattr(CoreClient, "kek", given)
            await rotate(core_api, editor)
            await rewrap(core_api, editor)

    monkeypatch.setattr(CoreClient, "kek", around_a_rotation)
    status, answer = await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/revisions/1/restore")

    assert (status, answer["number"]) == (201, 3)
    assert await states(core_api, editor) == {2: "active", 1: "retired"}
    assert await content(ingest, editor, document) == expected


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_job_that_was_cut_short_goes_on_where_it_was(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    contents = [a_pdf(100) for _ in range(5)]
    documents = [await ingest.upload(editor, each) for each in contents]
    await rotate(core_api, editor)
    asked = 0
    given = CoreClient.kek

    async def dies(self: CoreClient, slug: str, version: int | None = None) -> TenantKey:
        nonlocal asked
        asked += version is None
        if asked > 1 + steps:  # the first is for the uploads
            raise asyncio.CancelledError
        return await given(self, slug, version)

    with monkeypatch.context() as dying:
        dying.setattr(CoreClient, "kek", dies)
        with pytest.raises(asyncio.CancelledError):
            await rewrap(core_api, editor, rows_a_step=2)
    half = await conn.fetchval("SELECT count(*) FROM file_revisions WHERE kek_version = 2")
    for document, expected in zip(documents, contents, strict=True):
        assert await content(ingest, editor, document) == expected
    await rewrap(core_api, editor, rows_a_step=2)

    assert half == 2 * steps
    assert await states(core_api, editor) == {2: "active", 1: "retired"}
    for document, expected in zip(documents, contents, strict=True):
        assert await content(ingest, editor, document) == expected


async def test_two_jobs_at_once_do_it_once(core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection) -> None:
    contents = [a_pdf(100) for _ in range(20)]
    documents = [await ingest.upload(editor, each) for each in contents]
    await rotate(core_api, editor)

    async def one() -> None:
        with contextlib.suppress(Snooze):
            await rewrap(core_api, editor, rows_a_step=3)

    await asyncio.gather(one(), one())

    assert await states(core_api, editor) == {2: "active", 1: "retired"}
    for document, expected in zip(documents, contents, strict=True):
        assert await content(ingest, editor, document) == expected


async def test_a_key_that_does_not_open_keeps_its_version_alive_and_stops_no_other(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection
) -> None:
    good, bad = await ingest.upload(editor, a_pdf(100)), await ingest.upload(editor, a_pdf(100))
    await conn.execute(
        "UPDATE file_revisions SET wrapped_dek = sha256('x') || decode(repeat('00', 28), 'hex') WHERE document_id = $1",
        bad["id"],
    )
    await rotate(core_api, editor)

    with pytest.raises(PermanentError, match="1 wrapped key"):
        await rewrap(core_api, editor)

    assert await states(core_api, editor) == {2: "active", 1: "retiring"}
    rows = await conn.fetch("SELECT document_id::text, kek_version FROM file_revisions")
    assert {document: version for document, version in rows} == {good["id"]: 2, bad["id"]: 1}  # noqa: C416


async def test_a_tenants_database_from_before_a_rotation_works_again_once_its_key_is_brought_back(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection
) -> None:
    expected = a_pdf()
    document = await ingest.upload(editor, expected)
    backup = await conn.fetchval("SELECT wrapped_dek FROM file_revisions")
    await rotate(core_api, editor)
    await rewrap(core_api, editor)
    await conn.execute("INSERT INTO kek_versions (version) VALUES (1)")
    await conn.execute("UPDATE file_revisions SET wrapped_dek = $1, kek_version = 1", backup)
    await conn.execute("DELETE FROM kek_versions WHERE version = 2")
    problems = [await ingest.call(editor, "GET", f"/v1/documents/{document['id']}/content")]
    upload = await ingest.open_upload(editor, len(expected))
    problems.append(await ingest.put(editor, upload, expected))

    # What docs/keys.md says.
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await registry.execute(
        """UPDATE tenant_keys SET state = 'retiring', retired_at = NULL
        WHERE tenant_id = (SELECT id FROM tenants WHERE slug = $1) AND version = 1""",
        editor.tenant.slug,
    )
    await registry.close()
    await rotate(core_api, editor)
    await rewrap(core_api, editor)

    assert [(status, problem["type"]) for status, problem in problems] == [(503, "/problems/wrapping-outdated")] * 2
    assert await states(core_api, editor) == {3: "active", 2: "retired", 1: "retired"}
    assert await content(ingest, editor, document) == expected
    assert await content(ingest, editor, await ingest.upload(editor, expected)) == expected


async def test_a_tenant_whose_keys_are_shredded_is_unreadable_though_its_objects_are_there(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, a_pdf())
    before = times_and_bytes(stored_files(ingest.settings, editor))
    slug = editor.tenant.slug
    await core_api.call("POST", f"/v1/tenants/{slug}/suspend")
    status, _ = await core_api.call("POST", f"/v1/tenants/{slug}/kek/shred", json={"confirm": slug})
    assert status == 200

    suspended = await ingest.call(editor, "GET", f"/v1/documents/{document['id']}/content")
    # Made active by hand, past all routes.
    registry = await connect(core_api.settings.registry_dsn.get_secret_value(), application_name="tests")
    await registry.execute("UPDATE tenants SET status = 'active' WHERE slug = $1", slug)
    await registry.execute(f"ALTER ROLE tenant_{slug} LOGIN")
    await registry.execute("SELECT pg_notify('tenants', $1)", slug)
    await registry.close()

    async def served() -> bool:
        return (await ingest.call(editor, "GET", f"/v1/documents/{document['id']}"))[0] == 200

    await eventually(served)
    active = await ingest.call(editor, "GET", f"/v1/documents/{document['id']}/content")

    assert (suspended[0], suspended[1]["type"]) == (403, "/problems/refused-by-core-api")
    assert (active[0], active[1]["type"]) == (410, "/problems/kek-shredded")
    assert times_and_bytes(list(before)) == before
