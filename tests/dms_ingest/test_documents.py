import unicodedata
from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import (
    Document,
    DocumentNotFound,
    Filter,
    VersionChanged,
    change_document,
    create_document,
    delete_document,
    get_document,
    list_documents,
)
from dms_ingest.folders import FolderNotFound, create_folder, delete_folder
from dms_ingest.names import NameRefused
from nexarch.db import Connection
from support.documents import add_document, new_id, next_revision

pytestmark = pytest.mark.database


async def all_documents(conn: Connection, which: Filter) -> list[Document]:
    return await list_documents(conn, which, before=None, limit=200)


async def test_a_document_shows_its_current_revision_and_state(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user, name="Müller.pdf")
    revision = await next_revision(tenant_conn, document_id, tenant_user)

    document = await get_document(tenant_conn, document_id)

    assert (document.name, document.revision_id, document.revision_number) == ("Müller.pdf", revision.id, 2)
    assert (document.processing_state, document.size_bytes, document.tags) == ("queued", 4, [])


async def test_pages_are_newest_first_and_miss_nothing(tenant_conn: Connection, tenant_user: UUID) -> None:
    made = [await add_document(tenant_conn, tenant_user, name=f"{n}.pdf") for n in range(5)]

    seen: list[UUID] = []
    before = None
    while page := await list_documents(tenant_conn, Filter(), before=before, limit=2):
        seen += [document.id for document in page]
        before = page[-1].id

    assert seen == made[::-1]


async def test_a_list_is_filtered_by_folder_top_level_tag_and_name(tenant_conn: Connection, tenant_user: UUID) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    inside = await add_document(tenant_conn, tenant_user, name="100%_sicher.pdf", folder_id=folder.id)
    outside = await add_document(tenant_conn, tenant_user, name="1000 Übersicht.pdf")
    tag = await tenant_conn.fetchval("INSERT INTO tags (name) VALUES ('Wichtig') RETURNING id")
    await tenant_conn.execute("INSERT INTO document_tags VALUES ($1, $2)", outside, tag)
    cases = [
        (Filter(), {inside, outside}),
        (Filter(in_folder=True, folder_id=folder.id), {inside}),
        (Filter(in_folder=True), {outside}),
        (Filter(in_folder=True, folder_id=uuid4()), set()),
        (Filter(tag="wichtig"), {outside}),
        (Filter(tag="unwichtig"), set()),
        (Filter(text="100%_"), {inside}),
        (Filter(text="100"), {inside, outside}),
        (Filter(text="\\"), set()),
        (Filter(text=unicodedata.normalize("NFD", "übers")), {outside}),
        (Filter(text="sicht", tag="Wichtig", in_folder=True), {outside}),
    ]
    for which, expected in cases:
        found = await all_documents(tenant_conn, which)

        assert {document.id for document in found} == expected, which


async def test_a_name_is_kept_in_nfc_and_bad_ones_are_refused(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user, name=unicodedata.normalize("NFD", "Müller.pdf"))

    assert (await get_document(tenant_conn, document_id)).name == "Müller.pdf"
    for name in ["", " ", ".", "..", "a/b", "a\nb", "x" * 256]:
        with pytest.raises(NameRefused):
            async with tenant_conn.transaction():
                await create_document(
                    tenant_conn, document_id=await new_id(tenant_conn), name=name, folder_id=None, user_id=tenant_user
                )


async def test_only_the_version_that_was_read_is_changed(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    read = await get_document(tenant_conn, document_id)
    await change_document(
        tenant_conn, document_id, if_versions=[read.version], name="Neu.pdf", move=False, folder_id=None
    )

    with pytest.raises(VersionChanged):
        await change_document(
            tenant_conn, document_id, if_versions=[read.version], name="Anders.pdf", move=False, folder_id=None
        )
    with pytest.raises(VersionChanged):
        await delete_document(tenant_conn, document_id, if_versions=[read.version])

    document = await get_document(tenant_conn, document_id)
    assert (document.name, document.version) == ("Neu.pdf", read.version + 1)


async def test_a_move_keeps_the_name_and_a_rename_the_folder(tenant_conn: Connection, tenant_user: UUID) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    document_id = await add_document(tenant_conn, tenant_user, name="Alt.pdf")

    await change_document(tenant_conn, document_id, if_versions=None, name=None, move=True, folder_id=folder.id)
    await change_document(tenant_conn, document_id, if_versions=None, name="Neu.pdf", move=False, folder_id=None)

    document = await get_document(tenant_conn, document_id)
    assert (document.name, document.folder_id) == ("Neu.pdf", folder.id)


async def test_nothing_is_put_into_a_folder_that_is_deleted_or_unknown(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    await delete_folder(tenant_conn, folder.id)
    document_id = await add_document(tenant_conn, tenant_user)

    for folder_id in [folder.id, uuid4()]:
        with pytest.raises(FolderNotFound):
            await add_document(tenant_conn, tenant_user, folder_id=folder_id)
        with pytest.raises(FolderNotFound):
            await change_document(tenant_conn, document_id, if_versions=None, name=None, move=True, folder_id=folder_id)


async def test_a_deleted_document_is_gone_for_every_reader(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)

    await delete_document(tenant_conn, document_id, if_versions=None)

    assert await all_documents(tenant_conn, Filter()) == []
    with pytest.raises(DocumentNotFound):
        await get_document(tenant_conn, document_id)
    with pytest.raises(DocumentNotFound):
        await delete_document(tenant_conn, document_id, if_versions=None)
    with pytest.raises(DocumentNotFound):
        await next_revision(tenant_conn, document_id, tenant_user)
