import unicodedata
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import DocumentNotFound, delete_document, get_document
from dms_ingest.names import NameRefused
from dms_ingest.tags import (
    TagNameTaken,
    TagNotFound,
    assign_tag,
    create_tag,
    delete_tag,
    list_tags,
    rename_tag,
    unassign_tag,
)
from nexarch.db import Connection
from support.documents import add_document

pytestmark = pytest.mark.database


async def test_a_name_is_used_once_in_whatever_case_and_form(tenant_conn: Connection) -> None:
    await create_tag(tenant_conn, "Übersicht")

    for name in ["übersicht", unicodedata.normalize("NFD", "Übersicht")]:
        with pytest.raises(TagNameTaken):
            async with tenant_conn.transaction():
                await create_tag(tenant_conn, name)
    with pytest.raises(NameRefused):
        await create_tag(tenant_conn, " ")


async def test_tags_are_listed_by_name_in_pages(tenant_conn: Connection) -> None:
    c, a, b = [await create_tag(tenant_conn, name) for name in "cab"]

    first = await list_tags(tenant_conn, after=None, limit=2)
    second = await list_tags(tenant_conn, after=(first[-1].name, first[-1].id), limit=2)

    assert first + second == [a, b, c]


async def test_a_tag_is_put_on_a_document_and_taken_off(tenant_conn: Connection, tenant_user: UUID) -> None:
    tag = await create_tag(tenant_conn, "Wichtig")
    document_id = await add_document(tenant_conn, tenant_user)

    for _ in range(2):
        await assign_tag(tenant_conn, document_id, tag.id)
    assert (await get_document(tenant_conn, document_id)).tags == ["Wichtig"]

    await unassign_tag(tenant_conn, document_id, tag.id)
    assert (await get_document(tenant_conn, document_id)).tags == []
    with pytest.raises(TagNotFound):
        await unassign_tag(tenant_conn, document_id, tag.id)


async def test_a_deleted_tag_is_off_every_document(tenant_conn: Connection, tenant_user: UUID) -> None:
    tag = await create_tag(tenant_conn, "Wichtig")
    document_id = await add_document(tenant_conn, tenant_user)
    await assign_tag(tenant_conn, document_id, tag.id)

    await delete_tag(tenant_conn, tag.id)

    assert (await get_document(tenant_conn, document_id)).tags == []
    with pytest.raises(TagNotFound):
        await delete_tag(tenant_conn, tag.id)


async def test_neither_an_unknown_tag_nor_an_unknown_document_is_tagged(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    tag = await create_tag(tenant_conn, "Wichtig")
    document_id = await add_document(tenant_conn, tenant_user)

    with pytest.raises(TagNotFound):
        async with tenant_conn.transaction():
            await assign_tag(tenant_conn, document_id, uuid4())
    await delete_document(tenant_conn, document_id, if_versions=None)
    for unknown in [document_id, uuid4()]:
        with pytest.raises(DocumentNotFound):
            await assign_tag(tenant_conn, unknown, tag.id)
        with pytest.raises(DocumentNotFound):
            await unassign_tag(tenant_conn, unknown, tag.id)


async def test_a_renamed_tag_stays_on_its_documents(tenant_conn: Connection, tenant_user: UUID) -> None:
    tag = await create_tag(tenant_conn, "Wichtig")
    document_id = await add_document(tenant_conn, tenant_user)
    await assign_tag(tenant_conn, document_id, tag.id)

    renamed = await rename_tag(tenant_conn, tag.id, "WICHTIG")

    assert (renamed.id, renamed.name) == (tag.id, "WICHTIG")
    assert (await get_document(tenant_conn, document_id)).tags == ["WICHTIG"]


async def test_a_tag_is_not_renamed_to_what_is_taken_or_no_name(tenant_conn: Connection) -> None:
    tag, _ = await create_tag(tenant_conn, "eins"), await create_tag(tenant_conn, "zwei")

    for name, error in [("ZWEI", TagNameTaken), ("a/b", NameRefused)]:
        with pytest.raises(error):
            async with tenant_conn.transaction():
                await rename_tag(tenant_conn, tag.id, name)
    with pytest.raises(TagNotFound):
        await rename_tag(tenant_conn, uuid4(), "drei")
