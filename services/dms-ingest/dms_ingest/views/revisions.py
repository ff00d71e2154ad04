"""HTTP in and out of revisions."""

import re
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel

from dms_ingest import copies, damage, revisions
from dms_ingest.documents import get_document
from dms_ingest.revisions import Revision
from dms_ingest.views.lists import number_cursor
from nexarch import audit
from nexarch.audit import Action
from nexarch.module import CORE
from nexarch.pages import PageQuery, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import DOORBELL, TENANTS, caller, tenant_connection

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class ProcessingError(BaseModel):
    """Why a file could not be processed: a code for programs, a sentence for people."""

    code: str
    detail: str | None


class RevisionAnswer(BaseModel):
    """One revision of a document."""

    id: UUID
    number: int
    sha256: str  # of the plaintext, in hex
    size: int  # of the plaintext, in bytes
    mime_type: str
    processing_state: str
    processing_error: ProcessingError | None
    page_count: int | None
    created_at: datetime
    created_by: UUID | None


class RevisionPage(BaseModel):
    """Revisions, newest first."""

    items: Sequence[RevisionAnswer]
    next_cursor: str | None


async def list_revisions(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/documents/{id}/revisions`: the revisions of a document, newest first."""
    document_id = id_in_path(request)
    before = number_cursor(query.cursor)
    async with tenant_connection(request) as conn:
        await get_document(conn, document_id)
        rows = await revisions.list_revisions(conn, document_id, before=before, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda revision: (str(revision.number),))
    return json_response(RevisionPage(items=[revision_answer(row) for row in page], next_cursor=cursor))


async def restore(request: web.Request) -> web.Response:
    """`POST /v1/documents/{id}/revisions/{number}/restore`: make an older revision the newest one again.

    It becomes a revision of its own, which shares the stored file with the older one: no byte is copied, whatever the
    size. 409 for the file that is current.
    """
    document_id = id_in_path(request)
    number = revision_number(request)
    try:
        revision = await _restored(request, document_id, number)
    except revisions.WrappingOutdated:
        # The tenant's key was rotated in between: the row is wrapped anew by now, and the copy is to be.
        revision = await _restored(request, document_id, number)
    request.app[DOORBELL].ring(caller(request).tenant)
    location = f"/v1/documents/{document_id}/revisions/{revision.number}/content"
    return json_response(revision_answer(revision), HTTPStatus.CREATED, {"Location": location})


async def _restored(request: web.Request, document_id: UUID, number: int) -> Revision:
    user = caller(request)
    async with tenant_connection(request) as conn:
        source = await revisions.sealed_revision(conn, document_id, number)
        revision_id = await revisions.new_revision_id(conn)
    copy = await copies.prepare_copy(
        request.app[CORE],
        source,
        tenant=user.tenant,
        tenant_id=await request.app[TENANTS].tenant_id(user.tenant),
        document_id=document_id,
        revision_id=revision_id,
        user_id=user.id,
    )
    await request.app[DOORBELL].arm(user.tenant)
    async with tenant_connection(request) as conn, conn.transaction():
        revision = await copies.restore_revision(conn, copy, source)
        await audit.record(
            conn,
            Action.REVISION_RESTORED,
            user_id=user.id,
            document_id=document_id,
            revision_id=revision.id,
            details={"restored": number, "number": revision.number},
        )
    return revision


def revision_number(request: web.Request) -> int:
    """The revision's number in the path; anything else is the number of nothing, so RevisionNotFound."""
    text = request.match_info["number"]
    if _NUMBER.fullmatch(text) is None:
        raise revisions.RevisionNotFound("There is no such revision of this document.")
    return int(text)


def revision_answer(row: Revision) -> RevisionAnswer:
    """A revision as JSON."""
    shown = damage.shown(row.processing_state, row.processing_error_code, row.processing_error_detail, row.damage)
    return RevisionAnswer(
        id=row.id,
        number=row.number,
        sha256=row.checksum_sha256.hex(),
        size=row.size_bytes,
        mime_type=row.mime_type,
        processing_state=shown.state or row.processing_state,
        processing_error=processing_error(shown.error_code, shown.error_detail),
        page_count=row.page_count,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def processing_error(code: str | None, detail: str | None) -> ProcessingError | None:
    """The error of a failed or damaged revision; None for any other."""
    return None if code is None else ProcessingError(code=code, detail=detail)
