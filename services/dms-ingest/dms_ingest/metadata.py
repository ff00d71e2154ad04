"""Metadata: fields of five types that a tenant defines, and their values on documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import asyncpg

from dms_ingest.documents import hold_document
from dms_ingest.field_values import FieldValue, ValueRefused, number_as_json, typed
from dms_ingest.names import composed, name_rules
from nexarch.db import Connection, fetch_all, fetch_one, fetch_optional
from nexarch.errors import Conflict, Invalid, NotFound

_OPTION_FORM = "An option has 1 to 255 characters, no slash and no control character."


class FieldNotFound(NotFound):
    """There is no such metadata field in this tenant."""

    code = "field-not-found"


class FieldNameTaken(Conflict):
    """Another metadata field has this name, in whatever case."""

    code = "field-name-taken"
    title = "The name is taken"


class FieldInUse(Conflict):
    """Documents have values in the field; ask for it to be removed with them, or clear them first."""

    code = "field-in-use"
    title = "The field has values"


class OptionInUse(Conflict):
    """A document has the option as its value."""

    code = "option-in-use"
    title = "The option is a document's value"


class OptionsRefused(Invalid):
    """A select field offers at least one option and none twice; a field of another type offers none."""

    code = "options-refused"
    title = "These options do not fit the field"


class ValueNotFound(NotFound):
    """The document has no value in this field."""

    code = "value-not-found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One row of `metadata_fields`, with what a select field offers."""

    id: UUID
    name: str
    type: str  # text, number, date, bool or select
    options: list[str]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One row of `document_metadata_values`; one of the five is not None, the one of its type."""

    field_id: UUID
    field_name: str
    field_type: str
    value_text: str | None
    value_number: Decimal | None
    value_date: date | None
    value_bool: bool | None
    value_select: str | None

    @property
    def value(self) -> FieldValue:
        """The value as JSON holds it: a date as ISO 8601, a number as `number_as_json` has it."""
        if self.value_number is not None:
            return number_as_json(self.value_number)
        if self.value_date is not None:
            return self.value_date.isoformat()
        if self.value_bool is not None:
            return self.value_bool
        return self.value_text if self.value_text is not None else self.value_select or ""


async def create_field(conn: Connection, *, name: str, type_: str, options: Sequence[str]) -> Field:
    """Add a field; call it in a transaction. Raises NameRefused, FieldNameTaken and OptionsRefused."""
    _check_offers(type_, options)
    field_id = await _insert_field(conn, name, type_)
    await _place_options(conn, field_id, options)
    return await get_field(conn, field_id)


async def _insert_field(conn: Connection, name: str, type_: str) -> UUID:
    sql = "INSERT INTO metadata_fields (name, type) VALUES ($1, $2) RETURNING id"
    try:
        with name_rules():
            field_id: UUID = await conn.fetchval(sql, composed(name), type_)
    except asyncpg.UniqueViolationError as error:
        raise FieldNameTaken("There is a field of this name.") from error
    return field_id


def _check_offers(field_type: str, options: Sequence[str]) -> None:
    if (field_type == "select") != bool(options):
        raise OptionsRefused("A select field needs options; a field of another type has none.")


async def change_field(conn: Connection, field_id: UUID, *, name: str | None, options: Sequence[str] | None) -> Field:
    """Rename a field (`name`), change what it offers and in which order (`options`), or both; call it in a transaction.

    Raises FieldNotFound, NameRefused, FieldNameTaken, OptionsRefused, and OptionInUse for one that a document has.
    """
    field_type = await _rename_field(conn, field_id, name)
    if options is not None:
        _check_offers(field_type, options)
        await _remove_options_but(conn, field_id, [composed(option) for option in options])
        await _place_options(conn, field_id, options)
    return await get_field(conn, field_id)


async def _rename_field(conn: Connection, field_id: UUID, name: str | None) -> str:
    """Also locks the field, so that two changes of its options come one after the other; returns its type."""
    sql = "UPDATE metadata_fields SET name = coalesce($2, name) WHERE id = $1 RETURNING type"
    try:
        with name_rules():
            field_type: str | None = await conn.fetchval(sql, field_id, None if name is None else composed(name))
    except asyncpg.UniqueViolationError as error:
        raise FieldNameTaken("There is a field of this name.") from error
    if field_type is None:
        raise FieldNotFound("There is no such metadata field.")
    return field_type


async def _remove_options_but(conn: Connection, field_id: UUID, kept: Sequence[str]) -> None:
    sql = "DELETE FROM metadata_options WHERE field_id = $1 AND value <> ALL($2)"
    try:
        await conn.execute(sql, field_id, kept)
    except asyncpg.ForeignKeyViolationError as error:
        raise OptionInUse("A document has an option that is to be removed; give it another value first.") from error


async def _place_options(conn: Connection, field_id: UUID, options: Sequence[str]) -> None:
    """Add what is new, and put all in this order."""
    sql = """
        INSERT INTO metadata_options (field_id, value, position)
        SELECT $1, value, position FROM unnest($2::text[]) WITH ORDINALITY AS given (value, position)
        ON CONFLICT (field_id, value) DO UPDATE SET position = excluded.position
    """
    try:
        await conn.execute(sql, field_id, [composed(option) for option in options])
    except asyncpg.CardinalityViolationError as error:
        raise OptionsRefused("An option is there twice.") from error
    except asyncpg.CheckViolationError as error:
        raise OptionsRefused(_OPTION_FORM) from error


async def delete_field(conn: Connection, field_id: UUID, *, with_values: bool) -> None:
    """Remove a field, with the values that documents have in it if `with_values`; call it in a transaction.

    Raises FieldNotFound, and FieldInUse where it has values, documents in the trash included.
    """
    await _lock_field(conn, field_id)
    if with_values:
        await conn.execute("DELETE FROM document_metadata_values WHERE field_id = $1", field_id)
    try:
        await conn.execute("DELETE FROM metadata_fields WHERE id = $1", field_id)
    except asyncpg.ForeignKeyViolationError as error:
        raise FieldInUse("Documents have values in this field.") from error


async def _lock_field(conn: Connection, field_id: UUID) -> None:
    """Who is giving a document a value in it is waited for, and waits."""
    sql = "SELECT true FROM metadata_fields WHERE id = $1 FOR UPDATE"
    if await conn.fetchval(sql, field_id) is None:
        raise FieldNotFound("There is no such metadata field.")


async def get_field(conn: Connection, field_id: UUID) -> Field:
    """One field; FieldNotFound."""
    sql = """
        SELECT f.id, f.name, f.type, f.created_at,
            ARRAY(SELECT o.value FROM metadata_options AS o WHERE o.field_id = f.id ORDER BY o.position) AS options
        FROM metadata_fields AS f
        WHERE f.id = $1
    """
    field = await fetch_optional(conn, Field, sql, field_id)
    if field is None:
        raise FieldNotFound("There is no such metadata field.")
    return field


async def list_fields(conn: Connection, *, after: tuple[str, UUID] | None, limit: int) -> list[Field]:
    """Fields by name, from the one behind `after`."""
    sql = """
        SELECT f.id, f.name, f.type, f.created_at,
            ARRAY(SELECT o.value FROM metadata_options AS o WHERE o.field_id = f.id ORDER BY o.position) AS options
        FROM metadata_fields AS f
        WHERE $1::text IS NULL OR (f.name COLLATE "C", f.id) > ($1::text COLLATE "C", $2::uuid)
        ORDER BY f.name COLLATE "C", f.id
        LIMIT $3
    """
    name, field_id = after if after is not None else (None, None)
    return await fetch_all(conn, Field, sql, name, field_id, limit)


async def list_values(conn: Connection, document_id: UUID) -> list[Value]:
    """The values of a document, by the names of their fields; call it in a transaction. Raises DocumentNotFound."""
    sql = """
        SELECT v.field_id, f.name AS field_name, v.field_type, v.value_text, v.value_number, v.value_date,
            v.value_bool, v.value_select
        FROM document_metadata_values AS v JOIN metadata_fields AS f ON f.id = v.field_id
        WHERE v.document_id = $1
        ORDER BY lower(f.name)
    """
    await hold_document(conn, document_id)
    return await fetch_all(conn, Value, sql, document_id)


async def set_value(conn: Connection, document_id: UUID, field_id: UUID, value: FieldValue) -> Value:
    """Give a document a value in a field, in place of the one it had; call it in a transaction.

    Raises DocumentNotFound, FieldNotFound and ValueRefused.
    """
    sql = """
        INSERT INTO document_metadata_values (document_id, field_id, field_type, value_text, value_number, value_date,
            value_bool, value_select)
        VALUES ($1, $2, $3, $4, $5, $6::text::date, $7, $8)
        ON CONFLICT (document_id, field_id) DO UPDATE
        SET value_text = excluded.value_text, value_number = excluded.value_number, value_date = excluded.value_date,
            value_bool = excluded.value_bool, value_select = excluded.value_select
        RETURNING field_id, $9::text AS field_name, field_type, value_text, value_number, value_date, value_bool,
            value_select
    """
    await hold_document(conn, document_id)
    field = await get_field(conn, field_id)
    columns = typed(field.type, value)
    try:
        return await fetch_one(conn, Value, sql, document_id, field_id, field.type, *columns, field.name)
    except asyncpg.CheckViolationError as error:
        raise ValueRefused("A text has 1 to 10,000 characters.", field_type=field.type) from error
    except asyncpg.ForeignKeyViolationError as error:
        if error.constraint_name == "document_metadata_values_option_fkey":
            raise ValueRefused("The field does not offer this option.", field_type=field.type) from error
        raise FieldNotFound("There is no such metadata field.") from error


async def clear_value(conn: Connection, document_id: UUID, field_id: UUID) -> None:
    """Remove a document's value in a field; call it in a transaction. Raises DocumentNotFound and ValueNotFound."""
    sql = "DELETE FROM document_metadata_values WHERE document_id = $1 AND field_id = $2 RETURNING true"
    await hold_document(conn, document_id)
    if await conn.fetchval(sql, document_id, field_id) is None:
        raise ValueNotFound("The document has no value in this field.")
