"""Many documents changed at once."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from dms_ingest.bulk import BulkRefused, Item, change_documents
from dms_ingest.documents import delete_document, get_document
from dms_ingest.field_values import FieldValue
from dms_ingest.folders import create_folder, delete_folder
from dms_ingest.metadata import create_field, list_values, set_value
from dms_ingest.tags import assign_tag, create_tag
from nexarch.db import Connection, connect
from support.database import TenantDatabase, add_user
from support.documents import add_document
from support.ingest import PDF, Ingest, Person, sign_in
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_values_tags_and_folders_of_many_documents_change_together(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    folder = await create_folder(tenant_conn, name="Akten", parent_id=None, user_id=tenant_user)
    fields = [
        await create_field(tenant_conn, name=f"a {type_}", type_=type_, options=["rot"] if type_ == "select" else [])
        for type_ in ("text", "number", "date", "bool", "select")
    ]
    given: list[FieldValue | None] = ["x", "12345678901234567.89", "9999-12-31", False, "rot"]
    values = dict(zip([field.id for field in fields], given, strict=True))
    few: dict[UUID, FieldValue | None] = {fields[0].id: None, fields[1].id: 7}
    on, off = (await create_tag(tenant_conn, "an")).id, (await create_tag(tenant_conn, "ab")).id
    ids = [await add_document(tenant_conn, tenant_user) for _ in range(3)]
    await assign_tag(tenant_conn, ids[0], off)
    await set_value(tenant_conn, ids[2], fields[0].id, "vorher")

    await change_documents(
        tenant_conn,
        [
            Item(
                document_id=document_id,
                move=True,
                folder_id=folder.id,
                values=values if document_id != ids[2] else few,
                assign=frozenset({on}),
                unassign=frozenset({off}),
            )
            for document_id in ids
        ],
    )

    for document_id in ids:
        document = await get_document(tenant_conn, document_id)
        assert (document.folder_id, document.tags, document.version) == (folder.id, ["an"], 3)
    assert {row.field_id: row.value for row in await list_values(tenant_conn, ids[0])} == values
    assert {row.field_id: row.value for row in await list_values(tenant_conn, ids[2])} == {fields[1].id: 7}


async def test_all_that_is_wrong_is_told_and_nothing_is_changed(tenant_conn: Connection, tenant_user: UUID) -> None:
    number = await create_field(tenant_conn, name="Betrag", type_="number", options=[])
    colour = await create_field(tenant_conn, name="Farbe", type_="select", options=["rot"])
    good, trashed = [await add_document(tenant_conn, tenant_user) for _ in range(2)]
    await delete_document(tenant_conn, trashed, if_versions=None)
    nothing = uuid4()
    gone = await create_folder(tenant_conn, name="Alt", parent_id=None, user_id=tenant_user)
    await delete_folder(tenant_conn, gone.id)

    with pytest.raises(BulkRefused) as refused:
        await change_documents(
            tenant_conn,
            [
                Item(document_id=good, values={number.id: 1}),
                Item(document_id=good, values={number.id: "x", colour.id: "blau", nothing: 1}),
                Item(document_id=trashed),
                Item(document_id=uuid4(), move=True, folder_id=nothing, assign=frozenset({nothing})),
                Item(document_id=uuid4(), move=True, folder_id=gone.id),
            ],
        )

    errors: Any = refused.value.members["errors"]
    assert [(error["index"], error["code"]) for error in errors] == [
        (1, "item-twice"),
        (1, "value-refused"),
        (1, "value-refused"),
        (1, "field-not-found"),
        (2, "document-not-found"),
        (3, "document-not-found"),
        (3, "folder-not-found"),
        (3, "tag-not-found"),
        (4, "document-not-found"),
        (4, "folder-not-found"),
    ]
    assert errors[1]["field_id"] == str(number.id)
    assert await list_values(tenant_conn, good) == []


async def test_calls_that_meet_in_any_order_wait_for_each_other_and_all_succeed(
    tenant_database: TenantDatabase,
) -> None:
    user_id = await add_user(tenant_database.owner_dsn, "editor@example.org", "editor")
    conns = [await connect(tenant_database.dsn, application_name="tests") for _ in range(4)]
    try:
        number = await create_field(conns[0], name="Betrag", type_="number", options=[])
        tags = [(await create_tag(conns[0], name)).id for name in "ab"]
        ids = [await add_document(conns[0], user_id) for _ in range(60)]

        async def change(conn: Connection, which: int) -> None:
            order = ids if which % 2 else list(reversed(ids))
            for round_ in range(5):
                async with conn.transaction():
                    await change_documents(
                        conn,
                        [
                            Item(
                                document_id=document_id,
                                move=True,
                                values={number.id: which},
                                assign=frozenset({tags[(which + round_) % 2]}),
                                unassign=frozenset({tags[(which + round_ + 1) % 2]}),
                            )
                            for document_id in order
                        ],
                    )

        async with asyncio.timeout(60):
            await asyncio.gather(*(change(conn, which) for which, conn in enumerate(conns)))

        told = await conns[0].fetch("SELECT count(*), value_number FROM document_metadata_values GROUP BY value_number")
        assert [row["count"] for row in told] == [60]
    finally:
        for conn in conns:
            await conn.close()


async def test_many_documents_are_changed_over_http_or_the_answer_says_why_not(ingest: Ingest, editor: Person) -> None:
    _, tag = await ingest.call(editor, "POST", "/v1/tags", json={"name": "Wichtig"})
    documents = [await ingest.upload(editor, PDF + bytes([n])) for n in range(2)]
    items = [{"document_id": document["id"], "assign_tags": [tag["id"]]} for document in documents]

    status, answer = await ingest.call(editor, "POST", "/v1/documents/bulk", json={"items": items})
    missing = [*items, {"document_id": str(uuid4()), "unassign_tags": [tag["id"]]}]
    refused, problem = await ingest.call(editor, "POST", "/v1/documents/bulk", json={"items": missing})

    assert (status, answer) == (200, {"changed": 2})
    assert (refused, problem["type"]) == (422, "/problems/bulk-refused")
    assert [(error["index"], error["code"]) for error in problem["errors"]] == [(2, "document-not-found")]
    _, page = await ingest.call(editor, "GET", "/v1/documents", params={"tag": "wichtig"})
    assert len(page["items"]) == 2


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"document_id": str(uuid4())}] * 1001,
        [{"document_id": str(uuid4()), "values": {"x": 1}}],
        [{"document_id": str(uuid4()), "values": {str(uuid4()): [1]}}],
        [{"document_id": str(uuid4()), "assign_tags": [str(UUID(int=7))], "unassign_tags": [str(UUID(int=7))]}],
        [{"document_id": str(uuid4()), "name": "x"}],
    ],
)
async def test_a_body_of_another_form_is_refused(ingest: Ingest, editor: Person, items: list[Any]) -> None:
    status, _ = await ingest.call(editor, "POST", "/v1/documents/bulk", json={"items": items})

    assert status == 422


async def test_nul_and_the_like_are_refused_wherever_a_word_is_taken(core_api: CoreApi, ingest: Ingest) -> None:
    admin = await sign_in(core_api, role="admin")
    document = await ingest.upload(admin, PDF)
    _, field = await ingest.call(admin, "POST", "/v1/metadata-fields", json={"name": "Wort", "type": "text"})
    path = f"/v1/documents/{document['id']}"
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/v1/tags", {"name": "a\0b"}),
        ("POST", "/v1/folders", {"name": "a\0b"}),
        ("PATCH", path, {"name": "a\0b"}),
        ("POST", "/v1/metadata-fields", {"name": "a\0b", "type": "text"}),
        ("POST", "/v1/metadata-fields", {"name": "Farbe", "type": "select", "options": ["a\0b"]}),
        ("PUT", f"{path}/metadata/{field['id']}", {"value": "a\0b"}),
        ("PATCH", f"/v1/metadata-fields/{field['id']}", {"name": "a\0b"}),
        ("POST", "/v1/documents/bulk", {"items": [{"document_id": document["id"], "values": {field["id"]: "a\0b"}}]}),
    ]

    for method, call, body in calls:
        status, problem = await ingest.call(admin, method, call, json=body)

        assert status == 422, (method, call, problem)


async def test_words_with_nul_find_nothing(ingest: Ingest, editor: Person) -> None:
    for path in ["/v1/documents?tag=a%00b", "/v1/documents?text=a%00b", "/v1/search?q=a%00b"]:
        status, problem = await ingest.call(editor, "GET", path)

        assert status in {200, 422}, (path, problem)
