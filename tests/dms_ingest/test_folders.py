import asyncio
import unicodedata
from contextlib import suppress
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import delete_document, get_document
from dms_ingest.folders import (
    Folder,
    FolderCycle,
    FolderNameTaken,
    FolderNotEmpty,
    FolderNotFound,
    FolderTooDeep,
    change_folder,
    create_folder,
    delete_folder,
    get_folder,
    hold_folder,
    list_folders,
)
from dms_ingest.names import NameRefused
from nexarch.db import Connection, connect
from support.database import TenantDatabase, add_user, until_blocked
from support.documents import add_document

pytestmark = pytest.mark.database


@pytest.fixture
def user(tenant_user: UUID) -> UUID:
    return tenant_user


async def folder(conn: Connection, user: UUID, name: str, parent: Folder | None = None) -> Folder:
    return await create_folder(conn, name=name, parent_id=None if parent is None else parent.id, user_id=user)


async def test_a_name_is_used_once_in_one_place(tenant_conn: Connection, user: UUID) -> None:
    letters = await folder(tenant_conn, user, "Briefe")
    await folder(tenant_conn, user, "Müller", letters)

    await folder(tenant_conn, user, "Müller")
    for parent in [letters, None]:
        with pytest.raises(FolderNameTaken):
            async with tenant_conn.transaction():
                await folder(tenant_conn, user, unicodedata.normalize("NFD", "Müller"), parent)


async def test_a_bad_name_is_refused(tenant_conn: Connection, user: UUID) -> None:
    for name in ["", "..", "a/b", "\t", "x" * 256]:
        with pytest.raises(NameRefused):
            async with tenant_conn.transaction():
                await folder(tenant_conn, user, name)


async def test_a_folder_cannot_be_moved_below_itself(tenant_conn: Connection, user: UUID) -> None:
    top = await folder(tenant_conn, user, "oben")
    middle = await folder(tenant_conn, user, "Mitte", top)
    bottom = await folder(tenant_conn, user, "unten", middle)

    for target in [top, middle, bottom]:
        with pytest.raises(FolderCycle):
            async with tenant_conn.transaction():
                await change_folder(tenant_conn, top.id, name=None, move=True, parent_id=target.id)

    moved = await change_folder(tenant_conn, bottom.id, name="frei", move=True, parent_id=None)
    assert (moved.name, moved.parent_id) == ("frei", None)


async def test_folders_stand_at_most_32_deep(tenant_conn: Connection, user: UUID) -> None:
    parent = None
    for depth in range(32):
        parent = await folder(tenant_conn, user, f"{depth}", parent)

    with pytest.raises(FolderTooDeep):
        await folder(tenant_conn, user, "32", parent)


async def test_children_and_the_whole_tree_are_listed_by_name(tenant_conn: Connection, user: UUID) -> None:
    a = await folder(tenant_conn, user, "a")
    b = await folder(tenant_conn, user, "b", a)
    c = await folder(tenant_conn, user, "c", a)
    d = await folder(tenant_conn, user, "d")

    top = await list_folders(tenant_conn, parent_id=None, everywhere=False, after=None, limit=9)
    below = await list_folders(tenant_conn, parent_id=a.id, everywhere=False, after=("b", b.id), limit=9)
    tree = await list_folders(tenant_conn, parent_id=None, everywhere=True, after=None, limit=3)

    assert (top, below, tree) == ([a, d], [c], [a, b, c])


async def test_only_an_empty_folder_is_deleted(tenant_conn: Connection, user: UUID) -> None:
    top = await folder(tenant_conn, user, "oben")
    below = await folder(tenant_conn, user, "unten", top)
    document_id = await add_document(tenant_conn, user, folder_id=below.id)

    for full in [top, below]:
        with pytest.raises(FolderNotEmpty):
            await delete_folder(tenant_conn, full.id)

    await delete_document(tenant_conn, document_id, if_versions=None)
    await delete_folder(tenant_conn, below.id)
    await delete_folder(tenant_conn, top.id)
    assert await list_folders(tenant_conn, parent_id=None, everywhere=True, after=None, limit=9) == []


async def test_a_deleted_folder_is_unknown_and_its_name_is_free(tenant_conn: Connection, user: UUID) -> None:
    gone = await folder(tenant_conn, user, "weg")
    await delete_folder(tenant_conn, gone.id)

    for folder_id in [gone.id, uuid4()]:
        with pytest.raises(FolderNotFound):
            await get_folder(tenant_conn, folder_id)
        with pytest.raises(FolderNotFound):
            await delete_folder(tenant_conn, folder_id)
        with pytest.raises(FolderNotFound):
            await change_folder(tenant_conn, folder_id, name="x", move=False, parent_id=None)
        with pytest.raises(FolderNotFound):
            await create_folder(tenant_conn, name="x", parent_id=folder_id, user_id=user)
    await folder(tenant_conn, user, "weg")


async def test_a_folder_is_not_moved_into_a_deleted_or_unknown_one(tenant_conn: Connection, user: UUID) -> None:
    moved, gone = await folder(tenant_conn, user, "bleibt"), await folder(tenant_conn, user, "geht")
    await delete_folder(tenant_conn, gone.id)

    for parent_id in [gone.id, uuid4()]:
        with pytest.raises(FolderNotFound):
            await change_folder(tenant_conn, moved.id, name=None, move=True, parent_id=parent_id)

    assert (await get_folder(tenant_conn, moved.id)).parent_id is None


async def test_a_folder_being_filled_is_not_deleted_under_the_document(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection]
) -> None:
    user = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    filling, deleting = two_conns
    place = await folder(filling, user, "Akten")
    async with filling.transaction():
        document_id = await add_document(filling, user, folder_id=place.id)
        deletion = asyncio.create_task(delete_in_transaction(deleting, place.id))
        await until_blocked(deleting, by=filling)

    with pytest.raises(FolderNotEmpty):
        await deletion

    assert (await get_document(filling, document_id)).folder_id == place.id


async def test_a_folder_that_is_held_is_deleted_only_afterwards(
    tenant_database: TenantDatabase, two_conns: tuple[Connection, Connection]
) -> None:
    user = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    holding, deleting = two_conns
    place = await folder(holding, user, "Akten")
    async with holding.transaction():
        await hold_folder(holding, place.id)
        deletion = asyncio.create_task(delete_in_transaction(deleting, place.id))
        await until_blocked(deleting, by=holding)

    await deletion

    with pytest.raises(FolderNotFound):
        await hold_folder(holding, place.id)


async def delete_in_transaction(conn: Connection, folder_id: UUID) -> None:
    async with conn.transaction():
        await delete_folder(conn, folder_id)


async def test_the_turn_to_change_the_tree_is_taken_before_a_folder_is_locked(tenant_database: TenantDatabase) -> None:
    user = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    conns = [await connect(tenant_database.dsn, application_name="tests") for _ in range(6)]
    try:
        places = [await folder(conns[0], user, str(number)) for number in range(4)]

        async def change(conn: Connection, start: int) -> None:
            """Without the turn these wait for each other, and Postgres ends one of them."""
            for number in range(start, start + 30):
                with suppress(FolderCycle):
                    await move_in_transaction(conn, places[number % 4], places[(number * 3 + start) % 4])
                async with conn.transaction():
                    await change_folder(
                        conn, places[start % 4].id, name=f"{start} {number}", move=False, parent_id=None
                    )

        await asyncio.gather(*(change(conn, start) for start, conn in enumerate(conns)))
    finally:
        for conn in conns:
            await conn.close()


async def move_in_transaction(conn: Connection, what: Folder, where: Folder) -> None:
    async with conn.transaction():
        await change_folder(conn, what.id, name=None, move=True, parent_id=where.id)
