"""Revisions that share one stored object."""

import asyncio
import os
from dataclasses import replace
from uuid import UUID

import pytest

from dms_ingest.copies import AlreadyCurrent, add_copy, restore_revision
from dms_ingest.documents import create_document, delete_document
from dms_ingest.purge import purge_document
from dms_ingest.revisions import NewRevision, Revision, RevisionNotFound, SealedRevision, sealed_revision
from nexarch.db import Connection
from support.database import TenantDatabase, add_user, until_blocked
from support.documents import a_revision, add_document, new_id, next_revision
from support.ingest import PDF, Ingest, Person, stored_files, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database


async def a_copy(conn: Connection, source: SealedRevision, document_id: UUID, user_id: UUID) -> NewRevision:
    """A copy of a revision, with a key that opens nothing."""
    copy = a_revision(await new_id(conn), document_id, user_id)
    return replace(
        copy,
        storage_key=source.storage_key,
        checksum_sha256=source.checksum_sha256,
        size_bytes=source.size_bytes,
        wrapped_dek=os.urandom(60),
    )


async def linked_document(conn: Connection, source: SealedRevision, user_id: UUID) -> UUID:
    """Another document whose file is the object of `source`."""
    document_id = await new_id(conn)
    async with conn.transaction():
        await create_document(conn, document_id=document_id, name="Zwilling", folder_id=None, user_id=user_id)
        await add_copy(conn, await a_copy(conn, source, document_id, user_id), source)
    return document_id


async def purged(conn: Connection, document_id: UUID) -> list[str]:
    await delete_document(conn, document_id, if_versions=None)
    async with conn.transaction():
        return await purge_document(conn, document_id)


async def usage(conn: Connection) -> int:
    total: int = await conn.fetchval("SELECT coalesce(sum(delta), 0) FROM usage_outbox")
    return total


async def test_a_copy_takes_the_text_and_stores_and_queues_nothing(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user, text="Ein langer Text.")
    source = await sealed_revision(tenant_conn, document_id)

    revision = await restored_over_another(tenant_conn, source, document_id, tenant_user)

    copied = await tenant_conn.fetch("SELECT content, search FROM document_texts WHERE revision_id = $1", revision.id)
    texts = await tenant_conn.fetch("SELECT content, search FROM document_texts WHERE revision_id = $1", source.id)
    state = await tenant_conn.fetchval("SELECT processing_state FROM file_revisions WHERE id = $1", revision.id)
    assert revision.number == 3
    assert copied == texts != []
    assert state == "processed"
    assert await tenant_conn.fetchval("SELECT count(*) FROM processing_jobs") == 2  # of the two uploads
    assert await usage(tenant_conn) == len(b"content") + len(b"more")


async def restored_over_another(conn: Connection, source: SealedRevision, document_id: UUID, user_id: UUID) -> Revision:
    """Upload a second file, then restore the first."""
    await next_revision(conn, document_id, user_id)
    return await restore_revision(conn, await a_copy(conn, source, document_id, user_id), source)


async def test_a_copy_of_what_has_no_text_yet_is_queued(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    source = await sealed_revision(tenant_conn, document_id)

    revision = await restored_over_another(tenant_conn, source, document_id, tenant_user)

    payloads = [row["payload"] for row in await tenant_conn.fetch("SELECT payload FROM processing_jobs ORDER BY id")]
    assert payloads[-1] == {"document_id": str(document_id), "revision_id": str(revision.id)}


async def test_the_file_that_is_current_is_not_restored(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    source = await sealed_revision(tenant_conn, document_id)
    await restored_over_another(tenant_conn, source, document_id, tenant_user)

    with pytest.raises(AlreadyCurrent):
        await restore_revision(tenant_conn, await a_copy(tenant_conn, source, document_id, tenant_user), source)


async def test_of_two_who_restore_the_same_revision_at_once_the_second_is_refused(
    tenant_database: TenantDatabase,
    two_conns: tuple[Connection, Connection],
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "e@example.org", "editor")
    first, second = two_conns
    document_id = await add_document(first, user_id)
    source = await sealed_revision(first, document_id)
    await next_revision(first, document_id, user_id)
    copies = [await a_copy(first, source, document_id, user_id) for _ in range(2)]

    async def restore_too() -> Revision:
        async with second.transaction():
            return await restore_revision(second, copies[1], source)

    async with first.transaction():
        await restore_revision(first, copies[0], source)
        other = asyncio.create_task(restore_too())
        await until_blocked(second, by=first)
    with pytest.raises(AlreadyCurrent):
        await other

    assert (await sealed_revision(first, document_id)).number == 3


async def test_an_object_goes_with_the_last_document_that_refers_to_it(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    source = await sealed_revision(tenant_conn, document_id)
    twin_id = await linked_document(tenant_conn, source, tenant_user)

    first = await purged(tenant_conn, document_id)
    left = await usage(tenant_conn)
    second = await purged(tenant_conn, twin_id)

    assert (first, left) == ([], source.size_bytes)
    assert (second, await usage(tenant_conn)) == ([source.storage_key], 0)


async def test_a_document_whose_revisions_share_an_object_gives_it_up_once(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    source = await sealed_revision(tenant_conn, document_id)
    await restored_over_another(tenant_conn, source, document_id, tenant_user)

    keys = await purged(tenant_conn, document_id)

    assert len(keys) == 2
    assert source.storage_key in keys
    assert await usage(tenant_conn) == 0


async def test_two_who_remove_the_last_two_references_at_once_leave_no_object_behind(
    tenant_database: TenantDatabase,
    two_conns: tuple[Connection, Connection],
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "admin@example.org", "admin")
    first, second = two_conns
    document_id = await add_document(first, user_id)
    source = await sealed_revision(first, document_id)
    twin_id = await linked_document(first, source, user_id)
    for each in [document_id, twin_id]:
        await delete_document(first, each, if_versions=None)
    async with first.transaction():
        keys = await purge_document(first, document_id)
        other = asyncio.create_task(purge_in_transaction(second, twin_id))
        await until_blocked(second, by=first)

    assert (keys, await other) == ([], [source.storage_key])
    assert await usage(first) == 0


async def test_a_copy_of_a_file_that_is_being_removed_is_refused(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection]
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "admin@example.org", "admin")
    first, second = two_conns
    document_id = await add_document(first, user_id)
    source = await sealed_revision(first, document_id)
    await delete_document(first, document_id, if_versions=None)
    async with first.transaction():
        keys = await purge_document(first, document_id)
        linking = asyncio.create_task(linked_document(second, source, user_id))
        await until_blocked(second, by=first)

    assert keys == [source.storage_key]
    with pytest.raises(RevisionNotFound):
        await linking


async def purge_in_transaction(conn: Connection, document_id: UUID) -> list[str]:
    async with conn.transaction():
        return await purge_document(conn, document_id)


async def test_an_older_revision_is_restored_without_a_look_at_its_bytes(ingest: Ingest, editor: Person) -> None:
    first, second = PDF + b"first", PDF + b"second, longer"
    document = await ingest.upload(editor, first)
    path = f"/v1/documents/{document['id']}"
    [object_file] = stored_files(ingest.settings, editor)
    await ingest.upload(editor, second, document_id=document["id"])
    content = object_file.read_bytes()
    object_file.unlink()  # nobody can read it now

    status, revision = await ingest.call(editor, "POST", f"{path}/revisions/1/restore")
    object_file.write_bytes(content)
    again, _ = await ingest.call(editor, "POST", f"{path}/revisions/1/restore")

    assert (status, revision["number"], revision["size"]) == (201, 3, len(first))
    assert again == 409
    assert len(stored_files(ingest.settings, editor)) == 2
    for file, expected in [("content", first), ("revisions/3/content", first), ("revisions/2/content", second)]:
        async with ingest.session.get(f"{ingest.url}{path}/{file}", headers=editor.headers) as response:
            assert (response.status, await response.read()) == (200, expected)


async def test_a_copy_opens_no_object_but_its_own(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF + b"first")
    path = f"/v1/documents/{document['id']}"
    await ingest.upload(editor, PDF + b"other", document_id=document["id"])
    await ingest.call(editor, "POST", f"{path}/revisions/1/restore")

    async with tenant_database(core_api, editor) as conn:
        await conn.execute("""
            UPDATE file_revisions SET storage_key = (SELECT storage_key FROM file_revisions WHERE number = 2)
            WHERE number = 3
        """)
    status, problem = await ingest.call(editor, "GET", f"{path}/content")

    assert (status, problem["type"]) == (500, "/problems/object-damaged")
