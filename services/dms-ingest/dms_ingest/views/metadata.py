"""HTTP in and out of metadata fields and their values."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal, Self
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from dms_ingest import metadata
from dms_ingest.views.lists import name_cursor
from nexarch.pages import PageQuery, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import tenant_connection

FieldType = Literal["text", "number", "date", "bool", "select"]
JsonScalar = StrictStr | StrictBool | StrictInt | StrictFloat


class NewField(BaseModel):
    """A metadata field to be."""

    model_config = ConfigDict(extra="forbid")

    name: str
    type: FieldType
    options: Annotated[list[str], Field(max_length=1000, description="What a select field offers")] = []


class FieldChange(BaseModel):
    """What is to change: only what is there does. A field keeps its type."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    options: Annotated[
        list[str] | None, Field(max_length=1000, description="All that a select field offers, in this order")
    ] = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.name is None and self.options is None:
            raise ValueError("name a field to change")
        return self


class FieldRemoval(BaseModel):
    """How a field is removed."""

    model_config = ConfigDict(extra="forbid")

    values: Annotated[bool, Field(description="Remove the documents' values with it")] = False


class FieldAnswer(BaseModel):
    """One metadata field."""

    id: UUID
    name: str
    type: FieldType
    options: list[str]
    created_at: datetime


class FieldPage(BaseModel):
    """Metadata fields by name."""

    items: Sequence[FieldAnswer]
    next_cursor: str | None


class NewValue(BaseModel):
    """A value of the field's type: a string, a number, true or false; a date as "2024-12-31".

    A number with a point and more than 15 digits is a string of them, so that none is lost.
    """

    model_config = ConfigDict(extra="forbid")

    value: JsonScalar


class ValueAnswer(BaseModel):
    """What a document has in one field."""

    field_id: UUID
    field_name: str
    field_type: FieldType
    value: JsonScalar


class ValueList(BaseModel):
    """All values of a document, by the names of their fields."""

    items: Sequence[ValueAnswer]


async def create_field(request: web.Request, body: NewField) -> web.Response:
    """`POST /v1/metadata-fields`: add a field; 409 if there is one of this name, in whatever case."""
    async with tenant_connection(request) as conn, conn.transaction():
        field = await metadata.create_field(conn, name=body.name, type_=body.type, options=body.options)
    return json_response(_field_answer(field), HTTPStatus.CREATED)


async def list_fields(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/metadata-fields`: fields by name."""
    after = name_cursor(query.cursor)
    async with tenant_connection(request) as conn:
        rows = await metadata.list_fields(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda field: (field.name, str(field.id)))
    return json_response(FieldPage(items=[_field_answer(row) for row in page], next_cursor=cursor))


async def change_field(request: web.Request, body: FieldChange) -> web.Response:
    """`PATCH /v1/metadata-fields/{id}`: rename a field, or say what it offers from now on and in which order.

    409 for a taken name, and for an option that is to go while a document has it.
    """
    async with tenant_connection(request) as conn, conn.transaction():
        field = await metadata.change_field(conn, id_in_path(request), name=body.name, options=body.options)
    return json_response(_field_answer(field))


async def delete_field(request: web.Request, query: FieldRemoval) -> web.Response:
    """`DELETE /v1/metadata-fields/{id}`: remove a field; 409 while documents have values in it.

    With `values=true` the values go too.
    """
    async with tenant_connection(request) as conn, conn.transaction():
        await metadata.delete_field(conn, id_in_path(request), with_values=query.values)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def list_values(request: web.Request) -> web.Response:
    """`GET /v1/documents/{id}/metadata`: all values of a document."""
    async with tenant_connection(request) as conn, conn.transaction():
        rows = await metadata.list_values(conn, id_in_path(request))
    return json_response(ValueList(items=[_value(row) for row in rows]))


async def set_value(request: web.Request, body: NewValue) -> web.Response:
    """`PUT /v1/documents/{id}/metadata/{field_id}`: give a document a value; 422 if it does not fit the field."""
    async with tenant_connection(request) as conn, conn.transaction():
        row = await metadata.set_value(conn, id_in_path(request), id_in_path(request, "field_id"), body.value)
    return json_response(_value(row))


async def clear_value(request: web.Request) -> web.Response:
    """`DELETE /v1/documents/{id}/metadata/{field_id}`: remove a document's value in a field."""
    async with tenant_connection(request) as conn, conn.transaction():
        await metadata.clear_value(conn, id_in_path(request), id_in_path(request, "field_id"))
    return web.Response(status=HTTPStatus.NO_CONTENT)


def _value(row: metadata.Value) -> ValueAnswer:
    return ValueAnswer.model_validate(
        {"field_id": row.field_id, "field_name": row.field_name, "field_type": row.field_type, "value": row.value}
    )


def _field_answer(field: metadata.Field) -> FieldAnswer:
    return FieldAnswer.model_validate(field, from_attributes=True)
