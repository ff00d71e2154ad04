"""HTTP in and out of tags."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from dms_ingest import tags
from dms_ingest.tags import Tag
from dms_ingest.views.lists import name_cursor
from nexarch.pages import PageQuery, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import tenant_connection


class NewTag(BaseModel):
    """A tag to be."""

    model_config = ConfigDict(extra="forbid")

    name: str


class TagAnswer(BaseModel):
    """One tag."""

    id: UUID
    name: str
    created_at: datetime


class TagPage(BaseModel):
    """Tags by name."""

    items: Sequence[TagAnswer]
    next_cursor: str | None


async def create(request: web.Request, body: NewTag) -> web.Response:
    """`POST /v1/tags`: add a tag; 409 if there is one of this name, in whatever case."""
    async with tenant_connection(request) as conn:
        tag = await tags.create_tag(conn, body.name)
    return json_response(_answer(tag), HTTPStatus.CREATED)


async def list_tags(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/tags`: tags by name."""
    after = name_cursor(query.cursor)
    async with tenant_connection(request) as conn:
        rows = await tags.list_tags(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda tag: (tag.name, str(tag.id)))
    return json_response(TagPage(items=[_answer(row) for row in page], next_cursor=cursor))


async def change(request: web.Request, body: NewTag) -> web.Response:
    """`PATCH /v1/tags/{id}`: rename a tag; 409 if there is another of this name, in whatever case."""
    async with tenant_connection(request) as conn:
        tag = await tags.rename_tag(conn, id_in_path(request), body.name)
    return json_response(_answer(tag))


async def delete(request: web.Request) -> web.Response:
    """`DELETE /v1/tags/{id}`: delete a tag and take it off every document."""
    async with tenant_connection(request) as conn:
        await tags.delete_tag(conn, id_in_path(request))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def assign(request: web.Request) -> web.Response:
    """`PUT /v1/documents/{id}/tags/{tag_id}`: put a tag on a document; done twice, it is the same."""
    async with tenant_connection(request) as conn, conn.transaction():
        await tags.assign_tag(conn, id_in_path(request), id_in_path(request, "tag_id"))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def unassign(request: web.Request) -> web.Response:
    """`DELETE /v1/documents/{id}/tags/{tag_id}`: take a tag off a document."""
    async with tenant_connection(request) as conn, conn.transaction():
        await tags.unassign_tag(conn, id_in_path(request), id_in_path(request, "tag_id"))
    return web.Response(status=HTTPStatus.NO_CONTENT)


def _answer(tag: Tag) -> TagAnswer:
    return TagAnswer.model_validate(tag, from_attributes=True)
