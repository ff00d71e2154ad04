import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import DocumentNotFound, delete_document
from dms_ingest.purge import NotInTrash, purge_document
from dms_ingest.tags import assign_tag, create_tag
from nexarch.db import Connection
from nexarch.purge import delete_objects, doomed_objects, forget_doomed
from nexarch.storage import ObjectNotFound
from nexarch.storage.local import LocalStorage
from support.database import TenantDatabase, add_user, until_blocked
from support.documents import add_document, next_revision
from support.objects import stream

pytestmark = pytest.mark.database


async def test_a_purged_document_leaves_no_row_and_gives_its_bytes_back(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user, text="Ein Text.")
    await next_revision(tenant_conn, document_id, tenant_user, content=b"12345")
    await assign_tag(tenant_conn, document_id, (await create_tag(tenant_conn, "Wichtig")).id)
    await delete_document(tenant_conn, document_id, if_versions=None)

    keys = await purge_document(tenant_conn, document_id)
    await tenant_conn.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what a commit would check

    assert len(keys) == 2
    assert all(key.startswith(f"documents/{document_id}/revisions/") for key in keys)
    for table in ["documents", "file_revisions", "stored_objects", "document_texts", "document_tags"]:
        assert await tenant_conn.fetchval(f"SELECT count(*) FROM {table}") == 0, table
    assert await tenant_conn.fetchval("SELECT sum(delta) FROM usage_outbox") == 0
    assert await doomed_objects(tenant_conn, after="", limit=10) == sorted(keys)
    await forget_doomed(tenant_conn, keys)
    assert await doomed_objects(tenant_conn, after="", limit=10) == []


async def test_only_a_document_of_the_trash_is_purged_and_only_once(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)

    with pytest.raises(NotInTrash):
        await purge_document(tenant_conn, document_id)
    await delete_document(tenant_conn, document_id, if_versions=None)
    await purge_document(tenant_conn, document_id)
    for gone in [document_id, uuid4()]:
        with pytest.raises(DocumentNotFound):
            await purge_document(tenant_conn, gone)


async def test_of_two_who_purge_at_once_one_finds_the_document_gone(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection]
) -> None:
    user = await add_user(tenant_database.owner_dsn, "admin@example.org", "admin")
    first, second = two_conns
    document_id = await add_document(first, user)
    await delete_document(first, document_id, if_versions=None)
    async with first.transaction():
        await purge_document(first, document_id)
        other = asyncio.create_task(purge_in_transaction(second, document_id))
        await until_blocked(second, by=first)

    with pytest.raises(DocumentNotFound):
        await other


async def purge_in_transaction(conn: Connection, document_id: UUID) -> None:
    async with conn.transaction():
        await purge_document(conn, document_id)


async def test_an_object_that_is_gone_already_does_not_keep_the_others(storage: LocalStorage) -> None:
    await storage.put("acme", "documents/b", stream(b"x"))

    gone = await delete_objects(storage, "acme", ["documents/gone", "documents/b"])

    assert gone == ["documents/gone", "documents/b"]
    with pytest.raises(ObjectNotFound):
        await storage.head("acme", "documents/b")


async def test_objects_that_a_failing_store_keeps_stay_doomed(tmp_path: Path) -> None:
    broken = LocalStorage(tmp_path)
    broken.close()

    assert await delete_objects(broken, "acme", ["documents/a", "documents/b"]) == []
