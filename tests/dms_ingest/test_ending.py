"""Uploads that nobody completes are cleared away."""

import asyncio

import pytest

from dms_ingest.ending import Sweep
from dms_ingest.staging import Staging
from nexarch.tenancy import TenantPools
from support.database import Cluster
from support.ingest import Ingest, Person, lock_out, sign_in, tenant_database
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.fixture
def staging(ingest: Ingest) -> Staging:
    return Staging(ingest.settings.staging_dir)


async def sweep(core_api: CoreApi, staging: Staging, person: Person) -> None:
    async with core_api.client("dms_ingest") as core:
        pools = TenantPools(core.database, application_name="tests")
        try:
            await Sweep(core, pools, staging).sweep(person.tenant.slug)
        finally:
            await pools.close()


async def test_an_expired_upload_is_gone_with_its_bytes_and_others_stay(
    core_api: CoreApi, ingest: Ingest, editor: Person, staging: Staging
) -> None:
    expired, alive, completed = [await ingest.open_upload(editor, 10, mime_type="text/plain") for _ in range(3)]
    for upload_id in (expired, alive, completed):
        await ingest.put(editor, upload_id, b"0123456789")
    await ingest.complete(editor, completed)
    async with tenant_database(core_api, editor) as conn:
        await conn.execute(
            "UPDATE upload_sessions SET created_at = now() - interval '9 days', expires_at = now() - interval '1 s'"
            " WHERE id = ANY($1::uuid[])",
            [expired, completed],
        )

    await sweep(core_api, staging, editor)

    statuses = [(await ingest.call(editor, "GET", f"/v1/uploads/{u}"))[0] for u in (expired, alive, completed)]
    assert statuses == [404, 200, 200]
    assert [str(session_id) for session_id in staging.staged(editor.tenant.slug)] == [alive]


async def test_bytes_that_come_let_an_upload_live_on(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    upload_id = await ingest.open_upload(editor, 10)
    async with tenant_database(core_api, editor) as conn:
        await conn.execute(
            "UPDATE upload_sessions SET created_at = now() - interval '7 days', expires_at = now() + interval '1 min'"
        )

    _, upload = await ingest.put(editor, upload_id, b"01234")

    async with tenant_database(core_api, editor) as conn:
        assert await conn.fetchval("SELECT expires_at > now() + interval '6 days' FROM upload_sessions")
    assert upload["received_bytes"] == 5


async def test_a_staged_file_whose_session_is_gone_is_removed(
    core_api: CoreApi, ingest: Ingest, editor: Person, staging: Staging
) -> None:
    upload_id = await ingest.open_upload(editor, 10)
    await ingest.put(editor, upload_id, b"01234")
    async with tenant_database(core_api, editor) as conn:
        await conn.execute("DELETE FROM upload_sessions")

    await sweep(core_api, staging, editor)

    assert staging.staged(editor.tenant.slug) == []


async def test_the_sweep_of_all_tenants_goes_past_one_that_locks_it_out(
    core_api: CoreApi, cluster: Cluster, ingest: Ingest, editor: Person, staging: Staging
) -> None:
    other = await sign_in(core_api)
    for person in (editor, other):
        upload_id = await ingest.open_upload(person, 10)
        await ingest.put(person, upload_id, b"01234")
    async with tenant_database(core_api, other) as conn:
        await conn.execute("DELETE FROM upload_sessions")
    await lock_out(cluster, editor.tenant.slug)

    async with core_api.client("dms_ingest") as core:
        pools = TenantPools(core.database, application_name="tests")
        sweeping = asyncio.create_task(Sweep(core, pools, staging).run())
        await eventually(lambda: nothing_is_staged(staging, other))
        sweeping.cancel()
        await asyncio.wait([sweeping])
        await pools.close()

    assert sweeping.cancelled()
    assert len(staging.staged(editor.tenant.slug)) == 1


async def nothing_is_staged(staging: Staging, person: Person) -> bool:
    return staging.staged(person.tenant.slug) == []
