import asyncio
from uuid import UUID

import pytest

from dms_ingest.documents import create_document, delete_document
from dms_ingest.revisions import RevisionNotFound, add_revision, list_revisions, sealed_revision
from nexarch.db import Connection, connect
from support.database import TenantDatabase, add_user
from support.documents import a_revision, add_document, new_id, next_revision

pytestmark = pytest.mark.database


async def test_a_revision_comes_with_its_number_its_job_and_its_usage(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)

    revision = await next_revision(tenant_conn, document_id, tenant_user, content=b"12345")

    jobs = await tenant_conn.fetch("SELECT job_type, payload, status FROM processing_jobs ORDER BY id")
    usage = await tenant_conn.fetch("SELECT metric, delta FROM usage_outbox ORDER BY id")
    assert revision.number == 2
    assert tuple(jobs[1]) == (
        "extract_text",
        {"document_id": str(document_id), "revision_id": str(revision.id)},
        "pending",
    )
    assert [tuple(row) for row in usage] == [("storage_bytes", 7), ("storage_bytes", 5)]


async def test_nothing_remains_of_a_revision_whose_transaction_is_rolled_back(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await new_id(tenant_conn)

    transaction = tenant_conn.transaction()
    await transaction.start()
    await create_document(tenant_conn, document_id=document_id, name="a", folder_id=None, user_id=tenant_user)
    await add_revision(tenant_conn, a_revision(await new_id(tenant_conn), document_id, tenant_user))
    await transaction.rollback()

    for table in ["documents", "file_revisions", "processing_jobs", "usage_outbox"]:
        assert await tenant_conn.fetchval(f"SELECT count(*) FROM {table}") == 0, table


async def test_uploads_at_once_to_one_document_get_numbers_without_gaps(tenant_database: TenantDatabase) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    conns = [await connect(tenant_database.dsn, application_name="tests") for _ in range(6)]
    try:
        document_id = await add_document(conns[0], user_id)

        revisions = await asyncio.gather(*(next_revision(conn, document_id, user_id) for conn in conns))

        assert sorted(revision.number for revision in revisions) == [2, 3, 4, 5, 6, 7]
        current = await sealed_revision(conns[0], document_id)
        assert current.number == 7
    finally:
        for conn in conns:
            await conn.close()


async def test_revisions_are_listed_newest_first_in_pages(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    for _ in range(3):
        await next_revision(tenant_conn, document_id, tenant_user)

    first = await list_revisions(tenant_conn, document_id, before=None, limit=3)
    second = await list_revisions(tenant_conn, document_id, before=first[-1].number, limit=3)

    assert [revision.number for revision in first + second] == [4, 3, 2, 1]


async def test_a_revision_is_found_by_number_and_only_by_one_that_exists(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    await next_revision(tenant_conn, document_id, tenant_user)

    assert (await sealed_revision(tenant_conn, document_id)).number == 2
    assert (await sealed_revision(tenant_conn, document_id, 1)).number == 1
    for number in [0, -1, 3]:
        with pytest.raises(RevisionNotFound):
            await sealed_revision(tenant_conn, document_id, number)


async def test_the_revisions_of_a_deleted_document_are_gone(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)

    await delete_document(tenant_conn, document_id, if_versions=None)

    assert await list_revisions(tenant_conn, document_id, before=None, limit=10) == []
    for number in [None, 1]:
        with pytest.raises(RevisionNotFound):
            await sealed_revision(tenant_conn, document_id, number)
