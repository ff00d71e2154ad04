"""HTTP in and out of documents."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal, Self, cast
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dms_ingest import damage, documents, processing, purge
from dms_ingest.documents import Document, Filter
from dms_ingest.keys import STORAGE, USAGE
from dms_ingest.views.preconditions import if_match
from dms_ingest.views.revisions import ProcessingError, processing_error
from nexarch import audit
from nexarch.audit import Action, moved_to
from nexarch.db import Connection
from nexarch.pages import PageQuery, decode_id, page_of
from nexarch.purge import delete_objects, forget_doomed
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import DOORBELL, caller, tenant_connection

State = Literal["queued", "processing", "processed", "failed", "damaged"]


class CurrentRevision(BaseModel):
    """The file that a document is at the moment."""

    id: UUID
    number: int
    sha256: str  # of the plaintext, in hex
    size: int  # of the plaintext, in bytes
    mime_type: str
    created_at: datetime
    created_by: UUID | None


class DocumentAnswer(BaseModel):
    """One document. Its `version` is its ETag; the processing state and the page count are its current revision's."""

    id: UUID
    name: str
    folder_id: UUID | None
    version: int
    tags: list[str]
    processing_state: State | None
    processing_error: ProcessingError | None
    page_count: int | None
    current_revision: CurrentRevision | None
    created_at: datetime
    created_by: UUID | None
    updated_at: datetime


class DocumentPage(BaseModel):
    """Documents, newest first."""

    items: Sequence[DocumentAnswer]
    next_cursor: str | None


class DocumentQuery(PageQuery):
    """Which documents to list: those that all of these fit."""

    folder: UUID | Literal["root"] | None = Field(default=None, description="A folder's id, or `root`: in no folder")
    tag: Annotated[str | None, Field(max_length=255, description="A tag's name, in any case")] = None
    text: Annotated[str | None, Field(max_length=255, description="A part of the name, in any case")] = None
    state: Annotated[State | None, Field(description="The processing state; damaged: the stored file is")] = None


class DocumentChange(BaseModel):
    """What is to change: only what is there does."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    folder_id: UUID | None = Field(default=None, description="null: out of its folder, to the top level")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a field to change")
        if "name" in self.model_fields_set and self.name is None:
            raise ValueError("a document cannot be without a name")
        return self


async def list_documents(request: web.Request, query: DocumentQuery) -> web.Response:
    """`GET /v1/documents`: documents, newest first, filtered by folder, tag, a part of the name and state."""
    which = Filter(
        in_folder=query.folder is not None,
        folder_id=query.folder if isinstance(query.folder, UUID) else None,
        tag=query.tag,
        text=query.text,
        state=query.state,
    )
    before = decode_id(query.cursor)
    async with tenant_connection(request) as conn:
        rows = await documents.list_documents(conn, which, before=before, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda document: (str(document.id),))
    return json_response(DocumentPage(items=[document_answer(row) for row in page], next_cursor=cursor))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/documents/{id}`: one document with its current revision and how far its processing is."""
    async with tenant_connection(request) as conn:
        document = await documents.get_document(conn, id_in_path(request))
    return document_response(document)


async def change(request: web.Request, body: DocumentChange) -> web.Response:
    """`PATCH /v1/documents/{id}`: rename or move a document.

    With `If-Match` only the version that the caller has read is changed; otherwise 412.
    """
    document_id = id_in_path(request)
    async with tenant_connection(request) as conn, conn.transaction():
        await documents.change_document(
            conn,
            document_id,
            if_versions=if_match(request),
            name=body.name,
            move="folder_id" in body.model_fields_set,
            folder_id=body.folder_id,
        )
        await _tell_change(conn, caller(request).id, document_id, body)
        document = await documents.get_document(conn, document_id)
    return document_response(document)


async def _tell_change(conn: Connection, user_id: UUID, document_id: UUID, change: DocumentChange) -> None:
    if change.name is not None:
        await audit.record(conn, Action.DOCUMENT_RENAMED, user_id=user_id, document_id=document_id)
    if "folder_id" in change.model_fields_set:
        details = moved_to(change.folder_id)
        await audit.record(conn, Action.DOCUMENT_MOVED, user_id=user_id, document_id=document_id, details=details)


async def delete(request: web.Request) -> web.Response:
    """`DELETE /v1/documents/{id}`: put a document into the trash.

    With `If-Match` only the version that the caller has read is deleted; otherwise 412.
    """
    document_id = id_in_path(request)
    async with tenant_connection(request) as conn, conn.transaction():
        await documents.delete_document(conn, document_id, if_versions=if_match(request))
        await audit.record(conn, Action.DOCUMENT_DELETED, user_id=caller(request).id, document_id=document_id)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def remove(request: web.Request) -> web.Response:
    """`POST /v1/documents/{id}/purge`: remove a document of the trash for good, with all its files.

    409 for one that was not deleted before.
    """
    async with tenant_connection(request) as conn, conn.transaction():
        keys = await purge.purge_document(conn, id_in_path(request), user_id=caller(request).id)
    tenant = caller(request).tenant
    request.app[USAGE].wake(tenant)
    gone = await delete_objects(request.app[STORAGE], tenant, keys)
    async with tenant_connection(request) as conn:
        await forget_doomed(conn, gone)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def retry(request: web.Request) -> web.Response:
    """`POST /v1/documents/{id}/retry`: process a document again whose processing failed; 409 in any other state."""
    document_id = id_in_path(request)
    tenant = caller(request).tenant
    await request.app[DOORBELL].arm(tenant)
    async with tenant_connection(request) as conn, conn.transaction():
        await documents.hold_document(conn, document_id)
        await processing.retry(conn, document_id)
        document = await documents.get_document(conn, document_id)
    request.app[DOORBELL].ring(tenant)
    return document_response(document, HTTPStatus.ACCEPTED)


def document_response(document: Document, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """A document as an answer, with its ETag."""
    return json_response(document_answer(document), status, {"ETag": f'"{document.version}"'})


def document_answer(row: Document) -> DocumentAnswer:
    """A document as JSON."""
    shown = damage.shown(row.processing_state, row.processing_error_code, row.processing_error_detail, row.damage)
    return DocumentAnswer(
        id=row.id,
        name=row.name,
        folder_id=row.folder_id,
        version=row.version,
        tags=row.tags,
        processing_state=cast("State | None", shown.state),
        processing_error=processing_error(shown.error_code, shown.error_detail),
        page_count=row.page_count,
        current_revision=None if row.revision_id is None else _current_revision(row),
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
    )


def _current_revision(row: Document) -> CurrentRevision:
    return CurrentRevision.model_validate(
        {
            "id": row.revision_id,
            "number": row.revision_number,
            "sha256": None if row.checksum_sha256 is None else row.checksum_sha256.hex(),
            "size": row.size_bytes,
            "mime_type": row.mime_type,
            "created_at": row.revision_created_at,
            "created_by": row.revision_created_by,
        }
    )
