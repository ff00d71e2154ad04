"""The tenant's quota, and the counter it is held against."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dms_ingest.documents import delete_document
from dms_ingest.purge import purge_document
from nexarch.db import Connection
from nexarch.usage import QuotaExceeded, Recount, recount_storage, storage_use
from support.documents import add_document, next_revision
from support.ingest import Ingest, Person, a_pdf, ingest_settings, run_ingest, sign_in, stored_files, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database


async def used(conn: Connection) -> int:
    return (await storage_use(conn)).used_bytes


async def set_quota(ingest: Ingest, admin: Person, quota_bytes: int | None) -> None:
    status, settings = await ingest.call(admin, "PATCH", "/v1/settings", json={"quota_bytes": quota_bytes})
    assert status == 200, settings


async def test_the_counter_is_the_sum_of_what_is_stored_also_in_the_trash_until_the_purge(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    before = await used(tenant_conn)
    document_id = await add_document(tenant_conn, tenant_user)
    await next_revision(tenant_conn, document_id, tenant_user, content=b"more")
    stored = await used(tenant_conn) - before
    await delete_document(tenant_conn, document_id, if_versions=None)
    in_trash = await used(tenant_conn) - before

    await purge_document(tenant_conn, document_id)

    assert (stored, in_trash) == (len(b"content") + len(b"more"), stored)
    assert await used(tenant_conn) == before


async def test_what_would_exceed_the_quota_is_refused_and_leaves_nothing(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    full = await used(tenant_conn)
    await tenant_conn.execute("UPDATE tenant_settings SET quota_bytes = $1", full + 4)
    await next_revision(tenant_conn, document_id, tenant_user, content=b"four")

    with pytest.raises(QuotaExceeded) as refused:
        await next_revision(tenant_conn, document_id, tenant_user, content=b"x")

    assert refused.value.members == {"used_bytes": full + 5, "quota_bytes": full + 4}
    assert await used(tenant_conn) == full + 4


async def test_a_recount_sets_the_counter_right_and_tells_core_api_only_what_it_was_not_told(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    await add_document(tenant_conn, tenant_user)
    right = await used(tenant_conn)
    await tenant_conn.execute("UPDATE storage_usage SET used_bytes = used_bytes + 100")

    found = await recount_storage(tenant_conn)
    again = await recount_storage(tenant_conn)
    untold = await tenant_conn.fetchval("DELETE FROM usage_outbox RETURNING delta")
    told_anew = await recount_storage(tenant_conn)

    assert found == Recount(before_bytes=right + 100, told_bytes=right, stored_bytes=right)
    assert again == Recount(before_bytes=right, told_bytes=right, stored_bytes=right)
    assert told_anew == Recount(before_bytes=right, told_bytes=right - untold, stored_bytes=right)
    assert [row["delta"] for row in await tenant_conn.fetch("SELECT delta FROM usage_outbox")] == [untold]


async def test_concurrent_completes_never_exceed_the_quota(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> None:
    admin = await sign_in(core_api, role="admin")
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    # Two services on one staging folder and store: each completes four at a time.
    async with run_ingest(settings) as one, run_ingest(settings) as other:
        uploads = await asyncio.gather(*(one.whole_upload(admin, a_pdf(1000)) for _ in range(12)))
        await set_quota(one, admin, 5500)

        answers = await asyncio.gather(
            *((one, other)[n % 2].complete(admin, upload) for n, upload in enumerate(uploads))
        )
        _, usage = await one.call(admin, "GET", "/v1/usage")

    assert Counter(status for status, _ in answers) == {200: 5, 507: 7}
    assert {answer["type"] for status, answer in answers if status == 507} == {"/problems/quota-exceeded"}
    assert usage == {"used_bytes": 5000, "quota_bytes": 5500}
    assert len(stored_files(settings, admin)) == 5
    async with tenant_database(core_api, admin) as conn:
        assert await conn.fetchval("SELECT sum(size_bytes) FROM file_revisions") == 5000


async def test_a_file_for_which_there_is_no_room_is_refused_before_any_byte_is_sent(
    core_api: CoreApi, ingest: Ingest
) -> None:
    admin = await sign_in(core_api, role="admin")
    await set_quota(ingest, admin, 100)
    body: dict[str, Any] = {"filename": "x.pdf", "mime_type": "application/pdf"}

    fits, _ = await ingest.call(admin, "POST", "/v1/uploads", json=body | {"size": 100})
    refused, problem = await ingest.call(admin, "POST", "/v1/uploads", json=body | {"size": 101})

    assert fits == 201
    assert (refused, problem["type"]) == (507, "/problems/quota-exceeded")
    assert (problem["used_bytes"], problem["quota_bytes"]) == (0, 100)


async def test_an_upload_refused_for_the_quota_is_kept_and_completed_when_there_is_room(
    core_api: CoreApi, ingest: Ingest
) -> None:
    admin = await sign_in(core_api, role="admin")
    upload_id = await ingest.whole_upload(admin, a_pdf(1000))
    await set_quota(ingest, admin, 999)

    refused, _ = await ingest.complete(admin, upload_id)
    await set_quota(ingest, admin, 1000)
    status, _ = await ingest.complete(admin, upload_id)

    assert (refused, status) == (507, 200)
