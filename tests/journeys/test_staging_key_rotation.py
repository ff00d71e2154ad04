"""A tenant's key is rotated while uploads are half done: what is staged stays readable, and no chunk is refused."""

from typing import Any

import pytest

from dms_ingest import staging_keys
from dms_ingest.staging_keys import WrappedKey, claim_key
from nexarch.core_client import CoreClient, TenantKey
from nexarch.crypto.envelope import new_dek, unwrap_staging_key, wrap_staging_key
from nexarch.db import Connection
from support.ingest import Ingest, Person, a_pdf, run_ingest
from support.rotating import content, rewrap, rotate, states
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_the_key_of_an_open_uploads_staged_bytes_is_wrapped_anew(
    core_api: CoreApi, editor: Person, conn: Connection
) -> None:
    key = new_dek()
    session_id = await conn.fetchval("SELECT uuidv7()")
    place = {"tenant_id": editor.tenant.id, "session_id": session_id}
    sql = """
        INSERT INTO upload_sessions (id, user_id, filename, mime_type, size_bytes, expires_at, wrapped_key, kek_version)
        VALUES ($1, $2, 'a.pdf', 'application/pdf', 1, now() + interval '1 day', $3, 1)
    """
    async with core_api.client("dms_ingest") as core:
        first = await core.kek(editor.tenant.slug)
        wrapped = wrap_staging_key(first.kek, key, **place, kek_version=1)
        await conn.execute(sql, session_id, editor.tenant.user_id, wrapped)
        await rotate(core_api, editor)

        await rewrap(core_api, editor)

        second = await core.kek(editor.tenant.slug)
    row = await conn.fetchrow("SELECT wrapped_key, kek_version FROM upload_sessions")
    assert row is not None
    assert row["kek_version"] == 2
    assert unwrap_staging_key(second.kek, row["wrapped_key"], **place, kek_version=2) == key
    assert await states(core_api, editor) == {2: "active", 1: "retired"}


async def test_an_upload_that_is_half_done_goes_on_after_a_rotation_also_in_another_process(
    core_api: CoreApi, ingest: Ingest, editor: Person, conn: Connection
) -> None:
    expected = a_pdf(900_000)
    upload = await ingest.open_upload(editor, len(expected))
    await ingest.put(editor, upload, expected[:400_000])
    before = await conn.fetchval("SELECT kek_version FROM upload_sessions")

    await rotate(core_api, editor)
    await rewrap(core_api, editor)
    async with run_ingest(ingest.settings) as other:
        status, _ = await other.put(editor, upload, expected[400_000:], offset=400_000)
        assert status == 200
        after = await conn.fetchval("SELECT kek_version FROM upload_sessions")
        status, document = await other.complete(editor, upload)

    assert status == 200, document
    assert (before, after) == (1, 2)
    assert await states(core_api, editor) == {2: "active", 1: "retired"}
    assert await content(ingest, editor, document) == expected


@pytest.mark.parametrize("moment", ["before the key is claimed", "after it is claimed"])
async def test_a_chunk_that_meets_a_rotation_is_taken(
    core_api: CoreApi, ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    expected = a_pdf(1000)
    upload = await ingest.open_upload(editor, len(expected))
    given, rotated = CoreClient.kek, False

    async def meets_a_rotation(self: CoreClient, slug: str, version: int | None = None) -> TenantKey:
        nonlocal rotated
        key = await given(self, slug, version)
        if not rotated:
            rotated = True
            await rotate(core_api, editor)
            await rewrap(core_api, editor)
        return key

    async def claimed_before_a_rotation(*args: Any) -> WrappedKey:  # noqa: ANN401
        nonlocal rotated
        claimed = await claim_key(*args)
        if not rotated:
            rotated = True
            # Another process was first with the key, under the version before.
            await rotate(core_api, editor)
            await rewrap(core_api, editor)
            return WrappedKey(wrapped_key=claimed.wrapped_key, kek_version=1)
        return claimed

    if moment == "before the key is claimed":
        monkeypatch.setattr(CoreClient, "kek", meets_a_rotation)
    else:
        await rotate(core_api, editor)
        monkeypatch.setattr(staging_keys, "claim_key", claimed_before_a_rotation)

    status, answer = await ingest.put(editor, upload, expected)
    monkeypatch.undo()
    _, document = await ingest.complete(editor, upload)

    assert status == 200, answer
    assert rotated
    assert await content(ingest, editor, document) == expected
