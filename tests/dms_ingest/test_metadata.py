from uuid import UUID, uuid4

import pytest

from dms_ingest.documents import DocumentNotFound
from dms_ingest.field_values import FieldValue, ValueRefused, typed
from dms_ingest.metadata import (
    Field,
    FieldInUse,
    FieldNameTaken,
    FieldNotFound,
    OptionInUse,
    OptionsRefused,
    ValueNotFound,
    change_field,
    clear_value,
    create_field,
    delete_field,
    list_fields,
    list_values,
    set_value,
)
from dms_ingest.names import NameRefused
from nexarch.db import Connection
from support.documents import add_document

pytestmark = pytest.mark.database


async def field(conn: Connection, type_: str, name: str | None = None) -> Field:
    options = ["offen", "bezahlt"] if type_ == "select" else []
    return await create_field(conn, name=name or f"Feld {type_}", type_=type_, options=options)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("text", "Ärger"),
        ("number", 12),
        ("number", -0.5),
        ("number", 12345678901234567890),
        ("number", 1e-300),
        ("number", 0.1),
        ("number", "12345678901234567.89"),
        ("number", "-0.10000000000000000000000001"),
        ("text", "👩\u200d👧 \u202e\ufeff\uffff"),
        ("date", "2024-02-29"),
        ("date", "0001-01-01"),
        ("date", "9999-12-31"),
        ("bool", False),
        ("bool", True),
        ("select", "offen"),
    ],
)
async def test_a_value_comes_back_as_it_was_set(
    tenant_conn: Connection, tenant_user: UUID, type_: str, value: FieldValue
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, type_)

    await set_value(tenant_conn, document_id, made.id, value)

    [row] = await list_values(tenant_conn, document_id)
    assert (row.field_id, row.field_name, row.field_type) == (made.id, made.name, type_)
    assert (row.value, type(row.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("text", 1),
        ("text", True),
        ("text", ""),
        ("text", "x" * 10_001),
        ("number", "eins"),
        ("number", "1e5"),
        ("number", ""),
        ("number", "١"),
        ("number", 12345678901234567.89),
        ("text", "a\x00b"),
        ("select", "a\x00b"),
        ("number", True),
        ("number", float("inf")),
        ("number", float("nan")),
        ("number", 10**309),
        ("date", "2024-02-30"),
        ("date", "20240229"),
        ("date", "2024-W01-1"),
        ("date", "29.02.2024"),
        ("date", 20240229),
        ("bool", 1),
        ("bool", "true"),
        ("select", "verloren"),
        ("select", ""),
        ("select", True),
    ],
)
async def test_a_value_that_does_not_fit_its_field_is_refused(
    tenant_conn: Connection, tenant_user: UUID, type_: str, value: FieldValue
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, type_)

    with pytest.raises(ValueRefused):
        async with tenant_conn.transaction():
            await set_value(tenant_conn, document_id, made.id, value)


def test_a_value_stands_in_the_column_of_its_type_only() -> None:
    values: list[tuple[str, FieldValue]] = [
        ("text", "a"),
        ("number", 1),
        ("date", "2024-01-01"),
        ("bool", False),
        ("select", "a"),
    ]
    for type_, value in values:
        assert sum(column is not None for column in typed(type_, value)) == 1


async def test_a_second_value_replaces_the_first(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "text")
    await set_value(tenant_conn, document_id, made.id, "eins")

    await set_value(tenant_conn, document_id, made.id, "zwei")

    assert [row.value for row in await list_values(tenant_conn, document_id)] == ["zwei"]


async def test_a_value_is_cleared_once(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "text")
    await set_value(tenant_conn, document_id, made.id, "eins")

    await clear_value(tenant_conn, document_id, made.id)

    assert await list_values(tenant_conn, document_id) == []
    with pytest.raises(ValueNotFound):
        await clear_value(tenant_conn, document_id, made.id)


async def test_unknown_fields_and_documents_take_no_value(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "text")

    with pytest.raises(FieldNotFound):
        await set_value(tenant_conn, document_id, uuid4(), "x")
    with pytest.raises(DocumentNotFound):
        await set_value(tenant_conn, uuid4(), made.id, "x")
    with pytest.raises(DocumentNotFound):
        await list_values(tenant_conn, uuid4())


async def test_fields_are_listed_by_name_with_their_options_in_order(tenant_conn: Connection) -> None:
    b = await field(tenant_conn, "select", "b")
    a = await field(tenant_conn, "text", "a")

    assert b.options == ["offen", "bezahlt"]
    assert await list_fields(tenant_conn, after=None, limit=9) == [a, b]
    assert await list_fields(tenant_conn, after=("a", a.id), limit=9) == [b]


async def test_a_field_that_makes_no_sense_is_refused(tenant_conn: Connection) -> None:
    await field(tenant_conn, "text", "Betrag")
    cases: list[tuple[str, str, list[str], type[Exception]]] = [
        ("BETRAG", "text", [], FieldNameTaken),
        ("", "text", [], NameRefused),
        ("Status", "select", [], OptionsRefused),
        ("Status", "text", ["offen"], OptionsRefused),
        ("Status", "select", ["offen", "offen"], OptionsRefused),
        ("Status", "select", ["a\nb"], OptionsRefused),
    ]
    for name, type_, options, error in cases:
        with pytest.raises(error):
            async with tenant_conn.transaction():
                await create_field(tenant_conn, name=name, type_=type_, options=options)


async def test_a_field_is_renamed_and_offers_other_options_in_another_order(
    tenant_conn: Connection, tenant_user: UUID
) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "select")
    await set_value(tenant_conn, document_id, made.id, "bezahlt")

    changed = await change_field(tenant_conn, made.id, name="Zustand", options=["neu", "bezahlt"])

    assert (changed.name, changed.options) == ("Zustand", ["neu", "bezahlt"])
    assert [row.value for row in await list_values(tenant_conn, document_id)] == ["bezahlt"]


async def test_an_option_that_a_document_has_cannot_be_taken_away(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "select")
    await set_value(tenant_conn, document_id, made.id, "bezahlt")

    with pytest.raises(OptionInUse):
        async with tenant_conn.transaction():
            await change_field(tenant_conn, made.id, name=None, options=["offen"])


@pytest.mark.parametrize(
    ("type_", "options"), [("select", []), ("select", ["a", "a"]), ("select", ["a/b"]), ("text", ["a"])]
)
async def test_options_that_do_not_fit_are_refused_later_too(
    tenant_conn: Connection, type_: str, options: list[str]
) -> None:
    made = await field(tenant_conn, type_)

    with pytest.raises(OptionsRefused):
        async with tenant_conn.transaction():
            await change_field(tenant_conn, made.id, name=None, options=options)


async def test_a_change_to_a_taken_name_or_of_no_field_is_refused(tenant_conn: Connection) -> None:
    first, _ = await field(tenant_conn, "text", "Eins"), await field(tenant_conn, "text", "Zwei")

    with pytest.raises(FieldNameTaken):
        async with tenant_conn.transaction():
            await change_field(tenant_conn, first.id, name="ZWEI", options=None)
    with pytest.raises(FieldNotFound):
        await change_field(tenant_conn, uuid4(), name="x", options=None)


async def test_a_field_with_values_goes_only_together_with_them(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user)
    made = await field(tenant_conn, "select")
    await set_value(tenant_conn, document_id, made.id, "offen")

    with pytest.raises(FieldInUse):
        async with tenant_conn.transaction():
            await delete_field(tenant_conn, made.id, with_values=False)
    await delete_field(tenant_conn, made.id, with_values=True)

    assert await list_values(tenant_conn, document_id) == []
    with pytest.raises(FieldNotFound):
        await delete_field(tenant_conn, made.id, with_values=True)
