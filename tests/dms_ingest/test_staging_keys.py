"""The keys of staged bytes: where they come from, who shares them, when they are gone."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from dms_ingest.staging_keys import StagingKeys
from dms_ingest.upload_sessions import UploadNotFound, abort_expired
from nexarch.auth import User
from nexarch.core_client import CoreClient
from nexarch.crypto.envelope import SealBroken
from nexarch.tenancy import TenantPools
from support.ingest import PDF, Ingest, Person
from support.services import CoreApi

pytestmark = pytest.mark.database


@pytest.fixture
async def core(core_api: CoreApi) -> AsyncIterator[CoreClient]:
    async with core_api.client("dms_ingest") as client:
        yield client


@pytest.fixture
async def tenants(core: CoreClient) -> AsyncIterator[TenantPools]:
    pools = TenantPools(core.database, application_name="tests")
    yield pools
    await pools.close()


async def user_of(tenants: TenantPools, person: Person) -> User:
    slug = person.tenant.slug
    async with tenants.acquire(slug) as conn:
        user_id = await conn.fetchval("SELECT id FROM users")
    return User(id=user_id, tenant_id=await tenants.tenant_id(slug), tenant=slug, role="editor")


async def key_of(keys: StagingKeys, user: User, session_id: UUID) -> bytes:
    async with keys.lend(user, session_id) as key:
        return key


async def test_all_processes_have_one_key_for_an_upload_and_another_for_the_next(
    ingest: Ingest, editor: Person, core: CoreClient, tenants: TenantPools
) -> None:
    first, second = [UUID(await ingest.open_upload(editor, 10)) for _ in range(2)]
    user = await user_of(tenants, editor)

    at_once = await asyncio.gather(*(key_of(StagingKeys(core, tenants), user, first) for _ in range(4)))
    other = await key_of(StagingKeys(core, tenants), user, second)

    assert len(set(at_once)) == 1
    assert len(at_once[0]) == 32
    assert other != at_once[0]


async def test_the_wrapped_key_of_one_upload_opens_nothing_of_another(
    ingest: Ingest, editor: Person, core: CoreClient, tenants: TenantPools
) -> None:
    first, second = [UUID(await ingest.open_upload(editor, 10)) for _ in range(2)]
    user = await user_of(tenants, editor)
    await key_of(StagingKeys(core, tenants), user, first)
    async with tenants.acquire(editor.tenant.slug) as conn:
        sql = """
            UPDATE upload_sessions AS s SET wrapped_key = o.wrapped_key, kek_version = o.kek_version
            FROM upload_sessions AS o WHERE s.id = $1 AND o.id = $2
        """
        await conn.execute(sql, second, first)

    with pytest.raises(SealBroken):
        await key_of(StagingKeys(core, tenants), user, second)


async def test_an_upload_that_is_over_has_no_key(
    ingest: Ingest, editor: Person, core: CoreClient, tenants: TenantPools
) -> None:
    ended, expired, complete = [UUID(await ingest.open_upload(editor, len(PDF))) for _ in range(3)]
    for session_id in (ended, expired, complete):
        await ingest.put(editor, str(session_id), PDF)
    user = await user_of(tenants, editor)
    async with tenants.acquire(editor.tenant.slug) as conn:
        count = "SELECT count(wrapped_key) + count(kek_version) FROM upload_sessions"
        assert await conn.fetchval(count) == 6

        await ingest.call(editor, "DELETE", f"/v1/uploads/{ended}")
        await ingest.complete(editor, str(complete))
        await conn.execute(
            "UPDATE upload_sessions SET created_at = '-infinity', expires_at = now() WHERE id = $1", expired
        )
        await abort_expired(conn)

        assert await conn.fetchval(count) == 0
    for session_id in (ended, expired, complete):
        with pytest.raises(UploadNotFound):
            await key_of(StagingKeys(core, tenants), user, session_id)


async def test_the_next_chunk_needs_no_core_api_until_the_key_was_not_used_for_a_while(
    core_api: CoreApi, ingest: Ingest, editor: Person, tenants: TenantPools
) -> None:
    session_id = UUID(await ingest.open_upload(editor, 10))
    user = await user_of(tenants, editor)
    async with core_api.client("dms_ingest") as client:
        keeping, forgetting = StagingKeys(client, tenants), StagingKeys(client, tenants, kept_s=0)
        key = await key_of(keeping, user, session_id)
        await key_of(forgetting, user, session_id)
    # The client is closed now: whoever asks core-api fails.

    again = await key_of(keeping, user, session_id)
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        await key_of(forgetting, user, session_id)
    keeping.forget(session_id)
    with pytest.raises(RuntimeError):
        await key_of(keeping, user, session_id)

    assert again == key
