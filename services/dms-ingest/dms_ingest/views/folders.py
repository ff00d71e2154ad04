"""HTTP in and out of folders."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Literal, Self
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dms_ingest import folders
from dms_ingest.folders import Folder
from dms_ingest.views.lists import name_cursor
from nexarch import audit
from nexarch.audit import Action, moved_to
from nexarch.pages import PageQuery, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import caller, tenant_connection


class NewFolder(BaseModel):
    """A folder to be."""

    model_config = ConfigDict(extra="forbid")

    name: str
    parent_id: UUID | None = Field(default=None, description="null: at the top level")


class FolderChange(BaseModel):
    """What is to change: only what is there does."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    parent_id: UUID | None = Field(default=None, description="null: to the top level")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a field to change")
        if "name" in self.model_fields_set and self.name is None:
            raise ValueError("a folder cannot be without a name")
        return self


class FolderAnswer(BaseModel):
    """One folder."""

    id: UUID
    name: str
    parent_id: UUID | None
    created_at: datetime
    created_by: UUID | None
    updated_at: datetime


class FolderPage(BaseModel):
    """Folders by name."""

    items: Sequence[FolderAnswer]
    next_cursor: str | None


class FolderQuery(PageQuery):
    """Which folders to list."""

    parent: UUID | Literal["root"] | None = Field(
        default=None, description="A folder's id for those in it, `root` for those at the top; all of the tree without"
    )


async def create(request: web.Request, body: NewFolder) -> web.Response:
    """`POST /v1/folders`: add a folder; 409 if its name is taken in that place."""
    async with tenant_connection(request) as conn, conn.transaction():
        folder = await folders.create_folder(conn, name=body.name, parent_id=body.parent_id, user_id=caller(request).id)
    return json_response(_answer(folder), HTTPStatus.CREATED, {"Location": f"/v1/folders/{folder.id}"})


async def list_folders(request: web.Request, query: FolderQuery) -> web.Response:
    """`GET /v1/folders`: folders by name: those in one, those at the top, or the whole tree."""
    parent_id = query.parent if isinstance(query.parent, UUID) else None
    after = name_cursor(query.cursor)
    async with tenant_connection(request) as conn:
        if parent_id is not None:
            await folders.get_folder(conn, parent_id)
        rows = await folders.list_folders(
            conn, parent_id=parent_id, everywhere=query.parent is None, after=after, limit=query.limit + 1
        )
    page, cursor = page_of(rows, query.limit, lambda folder: (folder.name, str(folder.id)))
    return json_response(FolderPage(items=[_answer(row) for row in page], next_cursor=cursor))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/folders/{id}`: one folder."""
    async with tenant_connection(request) as conn:
        folder = await folders.get_folder(conn, id_in_path(request))
    return json_response(_answer(folder))


async def change(request: web.Request, body: FolderChange) -> web.Response:
    """`PATCH /v1/folders/{id}`: rename or move a folder; 409 for a taken name, and into a folder below it."""
    folder_id, user_id, move = id_in_path(request), caller(request).id, "parent_id" in body.model_fields_set
    of_folder = {"folder_id": str(folder_id)}
    async with tenant_connection(request) as conn, conn.transaction():
        folder = await folders.change_folder(conn, folder_id, name=body.name, move=move, parent_id=body.parent_id)
        if body.name is not None:
            await audit.record(conn, Action.FOLDER_RENAMED, user_id=user_id, details=of_folder)
        if move:
            details = {**of_folder, **moved_to(body.parent_id)}
            await audit.record(conn, Action.FOLDER_MOVED, user_id=user_id, details=details)
    return json_response(_answer(folder))


async def delete(request: web.Request) -> web.Response:
    """`DELETE /v1/folders/{id}`: delete an empty folder; 409 for one that holds something."""
    folder_id = id_in_path(request)
    async with tenant_connection(request) as conn, conn.transaction():
        await folders.delete_folder(conn, folder_id)
        details = {"folder_id": str(folder_id)}
        await audit.record(conn, Action.FOLDER_DELETED, user_id=caller(request).id, details=details)
    return web.Response(status=HTTPStatus.NO_CONTENT)


def _answer(folder: Folder) -> FolderAnswer:
    return FolderAnswer.model_validate(folder, from_attributes=True)
