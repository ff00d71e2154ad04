"""HTTP in and out of changes of many documents at once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Self
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dms_ingest import bulk
from dms_ingest.views.metadata import JsonScalar
from nexarch import audit
from nexarch.audit import Action, moved_to
from nexarch.routing import json_response
from nexarch.tenant_module import caller, tenant_connection

_Tags = Annotated[frozenset[UUID], Field(max_length=100)]


class BulkItem(BaseModel):
    """What is to change on one document: only what is there does."""

    model_config = ConfigDict(extra="forbid")

    document_id: UUID
    folder_id: Annotated[UUID | None, Field(description="Where to move it; null: to the top level")] = None
    values: Annotated[
        Mapping[UUID, JsonScalar | None], Field(max_length=100, description="By the id of the field; null clears it")
    ] = {}
    assign_tags: _Tags = frozenset()
    unassign_tags: _Tags = frozenset()

    @model_validator(mode="after")
    def _no_tag_in_both(self) -> Self:
        if self.assign_tags & self.unassign_tags:
            raise ValueError("a tag is to be assigned and unassigned")
        return self


class BulkChange(BaseModel):
    """Changes of many documents, each document once."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[Sequence[BulkItem], Field(min_length=1, max_length=bulk.MOST_DOCUMENTS)]


class BulkAnswer(BaseModel):
    """How many documents are now as was wanted: all of them."""

    changed: int


async def change(request: web.Request, body: BulkChange) -> web.Response:
    """`POST /v1/documents/bulk`: set and clear values, assign and unassign tags, and move, for up to 1,000 documents.

    All of it or nothing: 422 names every item that cannot be changed, and why.
    """
    items = [
        bulk.Item(
            document_id=item.document_id,
            move="folder_id" in item.model_fields_set,
            folder_id=item.folder_id,
            values=item.values,
            assign=item.assign_tags,
            unassign=item.unassign_tags,
        )
        for item in body.items
    ]
    async with tenant_connection(request) as conn, conn.transaction():
        await bulk.change_documents(conn, items)
        moves = [item for item in items if item.move]
        await audit.record_each(
            conn,
            Action.DOCUMENT_MOVED,
            [item.document_id for item in moves],
            user_id=caller(request).id,
            details=[moved_to(item.folder_id) for item in moves],
        )
    return json_response(BulkAnswer(changed=len(items)))
