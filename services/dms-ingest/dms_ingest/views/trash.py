"""HTTP in and out of the trash."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, Field

from dms_ingest import trash
from dms_ingest.documents import get_document
from dms_ingest.views.documents import DocumentAnswer, document_answer
from dms_ingest.views.lists import time_cursor
from nexarch import audit
from nexarch.audit import Action
from nexarch.pages import PageQuery, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import caller, tenant_connection


class TrashAnswer(BaseModel):
    """A document in the trash."""

    id: UUID
    name: str
    folder_id: Annotated[UUID | None, Field(description="Where it lay; null: at the top level")]
    size: Annotated[int | None, Field(description="Of its current file, in bytes; null: it has none")]
    deleted_at: datetime
    purge_at: Annotated[
        datetime | None, Field(description="From then on it is removed for good; null: only when an admin says so")
    ]
    days_left: Annotated[int | None, Field(description="Until then; a day that has begun counts whole")]


class TrashPage(BaseModel):
    """The trash, last deleted first."""

    items: Sequence[TrashAnswer]
    next_cursor: str | None


class RestoredDocument(DocumentAnswer):
    """A document that is back from the trash."""

    moved_to_top: Annotated[bool, Field(description="Its folder is gone, so it lies at the top level now")]


async def list_trash(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/trash`: what was deleted and can be restored, and how many days each stays."""
    before = time_cursor(query.cursor)
    async with tenant_connection(request) as conn:
        rows = await trash.list_trash(conn, before=before, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda row: (row.deleted_at.isoformat(), str(row.id)))
    return json_response(TrashPage(items=[_answer(row) for row in page], next_cursor=cursor))


async def restore(request: web.Request) -> web.Response:
    """`POST /v1/documents/{id}/restore`: take a document out of the trash, back into its folder.

    Where the folder is gone it goes to the top level, and `moved_to_top` says so. 409 if it is not in the trash.
    """
    document_id = id_in_path(request)
    async with tenant_connection(request) as conn, conn.transaction():
        in_its_folder = await trash.restore_document(conn, document_id)
        await audit.record(
            conn,
            Action.DOCUMENT_RESTORED,
            user_id=caller(request).id,
            document_id=document_id,
            details={"moved_to_top": not in_its_folder},
        )
        document = await get_document(conn, document_id)
    answer = RestoredDocument(**document_answer(document).model_dump(), moved_to_top=not in_its_folder)
    return json_response(answer, headers={"ETag": f'"{document.version}"'})


def _answer(row: trash.TrashedDocument) -> TrashAnswer:
    return TrashAnswer(
        id=row.id,
        name=row.name,
        folder_id=row.folder_id,
        size=row.size_bytes,
        deleted_at=row.deleted_at,
        purge_at=row.purge_at,
        days_left=row.days_left,
    )
