"""Upload sessions over HTTP."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Self
from uuid import UUID

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dms_ingest import upload_sessions
from dms_ingest.admission import admit_upload
from dms_ingest.completing import MOST_RANGES
from dms_ingest.documents import get_document
from dms_ingest.ending import end_upload
from dms_ingest.keys import COMPLETER, RECEIVER, SETTINGS, STAGING, UPLOAD_SEATS
from dms_ingest.media_types import essence
from dms_ingest.names import composed
from dms_ingest.upload_sessions import NewSession, Session
from dms_ingest.views.documents import document_response
from dms_ingest.views.request_body import raw_body
from nexarch.idempotency import idempotency_key
from nexarch.routing import go_on, id_in_path, json_response
from nexarch.tenant_module import TENANTS, caller, tenant_connection


def check_target(folder_id: UUID | None, document_id: UUID | None) -> None:
    """Raise ValueError unless an upload is for one place: a folder, or a document."""
    if folder_id is not None and document_id is not None:
        raise ValueError("a revision of a document has no folder of its own: send folder_id or document_id")


class NewUpload(BaseModel):
    """What is to come: a new document in a folder (none: the top), or the next revision of a document."""

    model_config = ConfigDict(extra="forbid")

    filename: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(composed)]
    mime_type: Annotated[str, Field(max_length=300), AfterValidator(essence)]
    size: Annotated[int, Field(strict=True, ge=0)]
    folder_id: UUID | None = None
    document_id: UUID | None = None
    sha256: Annotated[str | None, Field(pattern="^[0-9a-fA-F]{64}$")] = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        check_target(self.folder_id, self.document_id)
        return self


class ContentQuery(BaseModel):
    """Where in the file the bytes of the body begin."""

    model_config = ConfigDict(extra="forbid")

    offset: Annotated[int, Field(ge=0, lt=2**63)] = 0


class ByteRange(BaseModel):
    """Bytes from `start` up to but without `end`."""

    start: int
    end: int


class Upload(BaseModel):
    """An upload session; of `received` and `missing` the first 1,000 ranges."""

    id: UUID
    filename: str
    mime_type: str
    size: int | None  # None: begun by tus, and how long it is was not said yet
    sha256: str | None
    folder_id: UUID | None
    document_id: UUID | None  # of the document it is for, or that it became
    revision_id: UUID | None  # once complete
    state: str  # open or complete
    received_bytes: int
    received: list[ByteRange]
    missing: list[ByteRange]
    created_at: datetime
    expires_at: datetime


async def create(request: web.Request, body: NewUpload) -> web.Response:
    """Announce a file; type, size and quota are checked before a byte is sent.

    With an Idempotency-Key the same call may be sent again: it opens one upload.
    """
    settings = request.app[SETTINGS]
    new = NewSession(
        filename=body.filename,
        mime_type=body.mime_type,
        size_bytes=body.size,
        folder_id=body.folder_id,
        document_id=body.document_id,
        sha256=None if body.sha256 is None else bytes.fromhex(body.sha256),
    )
    key = idempotency_key(request.headers)
    async with tenant_connection(request) as conn:
        await admit_upload(
            conn,
            settings,
            mime_type=body.mime_type,
            size_bytes=body.size,
            sha256=new.sha256,
            document_id=body.document_id,
        )
        session = await upload_sessions.create_session(
            conn, caller(request).id, new, lifetime_s=settings.upload_lifetime_s, idempotency_key=key
        )
    return json_response(_as_json(session), HTTPStatus.CREATED, {"Location": f"/v1/uploads/{session.id}"})


async def get(request: web.Request) -> web.Response:
    """Which bytes have come and which have not."""
    return json_response(_as_json(await _session(request)))


async def put_content(request: web.Request, query: ContentQuery) -> web.Response:
    """Send bytes of the file from `offset` on, as the raw body; in any order, and again if need be.

    What arrived before a broken line is kept; ask with GET what is missing.
    """
    user, receiver = caller(request), request.app[RECEIVER]
    with raw_body(request) as body:
        session = await receiver.admit(user, id_in_path(request), query.offset, request.content_length)
        with request.app[UPLOAD_SEATS].take(user.tenant, user.id):
            await go_on(request)
            session = await receiver.receive(user, session, query.offset, body)
    return json_response(_as_json(session))


async def complete(request: web.Request) -> web.Response:
    """Make the upload a document, or its document's next revision; asked again, it answers the same document."""
    document_id = await request.app[COMPLETER].complete(caller(request), id_in_path(request))
    async with tenant_connection(request) as conn:
        document = await get_document(conn, document_id)
    return document_response(document)


async def delete(request: web.Request) -> web.Response:
    """End an upload that is not complete; its bytes are removed."""
    app = request.app
    await end_upload(app[TENANTS], app[STAGING], app[RECEIVER], app[COMPLETER], caller(request), id_in_path(request))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def _session(request: web.Request) -> Session:
    async with tenant_connection(request) as conn:
        return await upload_sessions.get_session(conn, caller(request).id, id_in_path(request))


def _as_json(session: Session) -> Upload:
    return Upload(
        id=session.id,
        filename=session.filename,
        mime_type=session.mime_type,
        size=None if session.length_deferred else session.size_bytes,
        sha256=None if session.sha256 is None else session.sha256.hex(),
        folder_id=session.folder_id,
        document_id=session.completed_document_id or session.document_id,
        revision_id=session.completed_revision_id,
        state=session.state,
        received_bytes=sum(end - start for start, end in session.ranges()),
        received=[ByteRange(start=start, end=end) for start, end in session.ranges()[:MOST_RANGES]],
        missing=[ByteRange(start=start, end=end) for start, end in session.missing()[:MOST_RANGES]],
        created_at=session.created_at,
        expires_at=session.expires_at,
    )
