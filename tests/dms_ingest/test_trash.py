import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import DocumentNotFound, delete_document, get_document
from dms_ingest.folders import create_folder, delete_folder
from dms_ingest.purge import NotInTrash, purge_document
from dms_ingest.trash import list_trash, restore_document
from nexarch.db import Connection
from support.database import TenantDatabase, add_user, until_blocked
from support.documents import add_document
from support.ingest import PDF, Ingest, Person, sign_in_another
from support.services import CoreApi

pytestmark = pytest.mark.database


async def trashed(conn: Connection, user_id: UUID, *, days_ago: float = 0, folder_id: UUID | None = None) -> UUID:
    document_id = await add_document(conn, user_id, folder_id=folder_id)
    await delete_document(conn, document_id, if_versions=None)
    await conn.execute(
        "UPDATE documents SET deleted_at = now() - $2::interval WHERE id = $1", document_id, timedelta(days=days_ago)
    )
    return document_id


async def test_the_trash_is_listed_last_deleted_first_in_pages(tenant_conn: Connection, tenant_user: UUID) -> None:
    ids = [await trashed(tenant_conn, tenant_user, days_ago=days) for days in (1, 3, 2, 3)]
    await add_document(tenant_conn, tenant_user)

    first = await list_trash(tenant_conn, before=None, limit=2)
    second = await list_trash(tenant_conn, before=(first[-1].deleted_at, first[-1].id), limit=3)

    assert [row.id for row in first + second] == [ids[0], ids[2], ids[3], ids[1]]
    assert first[0].size_bytes == len(b"content")


@pytest.mark.parametrize(
    ("trash_days", "days_ago", "left"), [(30, 0, 30), (30, 29.5, 1), (30, 30.5, 0), (0, 400, None)]
)
async def test_it_says_how_many_days_are_left(
    tenant_conn: Connection, tenant_user: UUID, trash_days: int, days_ago: float, left: int | None
) -> None:
    await tenant_conn.execute("UPDATE tenant_settings SET trash_days = $1", trash_days)
    await trashed(tenant_conn, tenant_user, days_ago=days_ago)

    [row] = await list_trash(tenant_conn, before=None, limit=2)

    assert row.days_left == left
    assert row.purge_at == (row.deleted_at + timedelta(days=trash_days) if trash_days else None)


async def test_a_restored_document_is_back_in_its_folder(tenant_conn: Connection, tenant_user: UUID) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    document_id = await trashed(tenant_conn, tenant_user, folder_id=folder.id)

    in_its_folder = await restore_document(tenant_conn, document_id)

    document = await get_document(tenant_conn, document_id)
    assert (in_its_folder, document.folder_id, document.version) == (True, folder.id, 4)
    assert await list_trash(tenant_conn, before=None, limit=2) == []


async def test_a_document_whose_folder_is_gone_is_restored_to_the_top(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    document_id = await trashed(tenant_conn, tenant_user, folder_id=folder.id)
    await delete_folder(tenant_conn, folder.id)

    in_its_folder = await restore_document(tenant_conn, document_id)

    assert not in_its_folder
    assert (await get_document(tenant_conn, document_id)).folder_id is None


async def test_only_what_is_in_the_trash_is_restored(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)

    with pytest.raises(NotInTrash):
        await restore_document(tenant_conn, document_id)
    with pytest.raises(DocumentNotFound):
        await restore_document(tenant_conn, uuid4())


@pytest.mark.parametrize("restore_first", [True, False])
async def test_of_a_restore_and_a_purge_at_once_the_first_wins(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection], restore_first: bool
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "admin@example.org", "admin")
    first, second = two_conns
    acts: list[Callable[[Connection, UUID], Awaitable[object]]] = [restore_document, purge_document]
    if not restore_first:
        acts.reverse()
    document_id = await trashed(first, user_id)

    async def late() -> None:
        async with second.transaction():
            await acts[1](second, document_id)

    async with first.transaction():
        await acts[0](first, document_id)
        other = asyncio.create_task(late())
        await until_blocked(second, by=first)

    with pytest.raises(NotInTrash if restore_first else DocumentNotFound):
        await other


async def test_a_document_comes_back_from_the_trash_over_http(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    viewer = await sign_in_another(core_api, editor.tenant, email="viewer@example.org", role="viewer")
    _, folder = await ingest.call(editor, "POST", "/v1/folders", json={"name": "Akten"})
    document = await ingest.upload(editor, PDF, folder_id=folder["id"])
    path = f"/v1/documents/{document['id']}"
    await ingest.call(editor, "DELETE", path)
    await ingest.call(editor, "DELETE", f"/v1/folders/{folder['id']}")

    _, page = await ingest.call(viewer, "GET", "/v1/trash")
    forbidden, _ = await ingest.call(viewer, "POST", f"{path}/restore")
    status, restored = await ingest.call(editor, "POST", f"{path}/restore")
    again, problem = await ingest.call(editor, "POST", f"{path}/restore")

    assert [(row["id"], row["size"], row["days_left"]) for row in page["items"]] == [(document["id"], len(PDF), 30)]
    assert forbidden == 403
    assert (status, restored["moved_to_top"], restored["folder_id"]) == (200, True, None)
    assert (again, problem["type"]) == (409, "/problems/not-in-trash")
    assert (await ingest.call(viewer, "GET", "/v1/trash"))[1]["items"] == []
    assert (await ingest.call(viewer, "GET", path))[0] == 200


AT_NO_TIME = [
    urlsafe_b64encode(json.dumps([time, str(UUID(int=1))]).encode()).decode().rstrip("=")
    for time in ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-01-01T00:00:00"]
]


@pytest.mark.parametrize("cursor", ["x", "WyJ4Iiwi\u00ff", "WyIyMDI0LTAxLTAxIiwieCJd", *AT_NO_TIME])
async def test_a_cursor_that_is_none_of_ours_is_refused(ingest: Ingest, editor: Person, cursor: str) -> None:
    status, problem = await ingest.call(editor, "GET", "/v1/trash", params={"cursor": cursor})

    assert (status, problem["type"]) == (422, "/problems/bad-cursor")
