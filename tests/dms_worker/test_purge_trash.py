"""What the worker removes for good, and what it leaves."""

import asyncio
from uuid import UUID

import pytest

from dms_ingest.documents import delete_document
from dms_worker.handlers.purge_trash import TrashPurge
from dms_worker.job_types import JobType
from nexarch.db import Connection, connect
from nexarch.storage import ObjectNotFound
from nexarch.storage.local import LocalStorage
from support.database import TenantDatabase, add_user
from support.documents import add_document
from support.objects import stream
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def trashed(conn: Connection, storage: LocalStorage, user_id: UUID, *, days_ago: int) -> str:
    """A document with an object, deleted so long ago; returns the object's key."""
    document_id = await add_document(conn, user_id, text="Ein Text.")
    key: str = await conn.fetchval("SELECT storage_key FROM file_revisions WHERE document_id = $1", document_id)
    await storage.put("acme", key, stream(b"content"))
    await delete_document(conn, document_id, if_versions=None)
    sql = "UPDATE documents SET deleted_at = now() - make_interval(days => $2) WHERE id = $1"
    await conn.execute(sql, document_id, days_ago)
    return key


def purging(storage: LocalStorage) -> JobType:
    return JobType(name="purge_trash", handler=TrashPurge(storage).run, every_s=1.0)


async def stored(storage: LocalStorage, key: str) -> bool:
    try:
        await storage.head("acme", key)
    except ObjectNotFound:
        return False
    return True


async def test_what_was_in_the_trash_long_enough_goes_with_its_objects_and_the_rest_stays(
    tenant_database: TenantDatabase, conn: Connection, bus_dsn: str, storage: LocalStorage
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    await conn.execute("UPDATE tenant_settings SET trash_days = 7")
    due = [await trashed(conn, storage, user_id, days_ago=8) for _ in range(120)]
    early = await trashed(conn, storage, user_id, days_ago=6)
    await add_document(conn, user_id)

    async def purged() -> bool:
        documents, doomed = await conn.fetchval("SELECT count(*) FROM documents"), await doomed_count(conn)
        return bool(documents == 2 and doomed == 0)

    async with asyncio.timeout(60), working([purging(storage)], {"acme": tenant_database.dsn}, bus_dsn):
        await eventually(purged, within_s=50)

    assert [await stored(storage, key) for key in (due[0], due[-1], early)] == [False, False, True]
    assert await conn.fetchval("SELECT sum(delta) FROM usage_outbox") == 2 * len(b"content")
    assert await conn.fetchval("SELECT count(*) FROM document_texts") == 1


async def doomed_count(conn: Connection) -> int:
    count: int = await conn.fetchval("SELECT count(*) FROM doomed_objects")
    return count


async def test_objects_that_somebody_who_died_had_doomed_are_deleted(
    tenant_database: TenantDatabase, conn: Connection, bus_dsn: str, storage: LocalStorage
) -> None:
    await storage.put("acme", "documents/a", stream(b"content"))
    await conn.execute("INSERT INTO doomed_objects (storage_key) VALUES ('documents/a'), ('documents/gone')")

    async def deleted() -> bool:
        return await doomed_count(conn) == 0

    async with asyncio.timeout(30), working([purging(storage)], {"acme": tenant_database.dsn}, bus_dsn):
        await eventually(deleted, within_s=25)

    assert not await stored(storage, "documents/a")


async def test_a_trash_of_zero_days_is_kept_until_an_admin_empties_it(
    tenant_database: TenantDatabase, conn: Connection, bus_dsn: str, storage: LocalStorage
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    await conn.execute("UPDATE tenant_settings SET trash_days = 0")
    await trashed(conn, storage, user_id, days_ago=5000)

    async def ran() -> bool:
        sql = "SELECT count(*) FROM processing_jobs WHERE job_type = 'purge_trash' AND status = 'succeeded'"
        return bool(await conn.fetchval(sql))

    async with asyncio.timeout(30), working([purging(storage)], {"acme": tenant_database.dsn}, bus_dsn):
        await eventually(ran, within_s=25)

    assert await conn.fetchval("SELECT count(*) FROM documents") == 1


async def test_a_document_that_is_being_restored_is_passed_over(
    tenant_database: TenantDatabase, conn: Connection, bus_dsn: str, storage: LocalStorage
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    kept = await trashed(conn, storage, user_id, days_ago=60)
    due = await trashed(conn, storage, user_id, days_ago=50)

    async def purged() -> bool:
        return not await stored(storage, due)

    other = await connect(tenant_database.dsn, application_name="tests")
    try:
        async with other.transaction():
            await other.execute(
                "UPDATE documents SET deleted_at = NULL WHERE deleted_at = (SELECT min(deleted_at) FROM documents)"
            )
            async with asyncio.timeout(30), working([purging(storage)], {"acme": tenant_database.dsn}, bus_dsn):
                await eventually(purged, within_s=25)
    finally:
        await other.close()

    assert await stored(storage, kept)
    assert await conn.fetchval("SELECT count(*) FROM documents WHERE deleted_at IS NULL") == 1
