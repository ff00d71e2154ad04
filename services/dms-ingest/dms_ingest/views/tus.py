"""tus 1.0 over HTTP: https://tus.io/protocols/resumable-upload. docs/uploads.md says what of it is ours."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Annotated, Self
from uuid import UUID

from aiohttp import web
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from dms_ingest import tus_headers
from dms_ingest.admission import admit_upload
from dms_ingest.checksums import ALGORITHMS
from dms_ingest.keys import SETTINGS, TUS, UPLOAD_SEATS
from dms_ingest.media_types import essence
from dms_ingest.names import composed
from dms_ingest.tus import Chunk, OffsetConflict, duplicates_told
from dms_ingest.tus_headers import CHUNK_TYPE, EXTENSIONS, VERSION, Concat, HeaderRefused
from dms_ingest.upload_sessions import NewSession, Session
from dms_ingest.views.request_body import raw_body
from dms_ingest.views.uploads import check_target
from nexarch.auth import Access, require
from nexarch.errors import UnsupportedType
from nexarch.problems import from_validation, problem_response
from nexarch.routing import go_on, id_in_path
from nexarch.tenant_module import authenticate, caller, tenant_connection

_PREFIX = "/files/"
_OCTETS = "application/octet-stream"
_PART = "part"  # what a part is called in its row; nobody sees it
# What Uppy writes for a field that a file does not have. Only a name may be such a word.
_NO_VALUE = frozenset({b"", b"null", b"undefined"})


class FileMetadata(BaseModel):
    """What we read of `Upload-Metadata`; other keys are kept for the client and mean nothing."""

    filename: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(composed)]
    filetype: Annotated[str, Field(max_length=300), AfterValidator(essence)] = _OCTETS
    folder_id: UUID | None = None
    document_id: UUID | None = None
    sha256: Annotated[str | None, Field(pattern="^[0-9a-fA-F]{64}$")] = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        check_target(self.folder_id, self.document_id)
        return self


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal of the application: what every answer to tus has, errors too."""
    if not request.path.startswith(_PREFIX):
        return
    response.headers["Tus-Resumable"] = VERSION
    if response.status == HTTPStatus.PRECONDITION_FAILED:
        response.headers["Tus-Version"] = VERSION


async def options(request: web.Request) -> web.Response:
    """What this server speaks of tus; with a token, where health and the like have a listener of their own."""
    if request.app[SETTINGS].internal_port is not None:
        require(await authenticate(request), Access.INTERNAL)
    headers = {
        "Tus-Version": VERSION,
        "Tus-Extension": ",".join(EXTENSIONS),
        "Tus-Max-Size": str(request.app[SETTINGS].max_upload_bytes),
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
    }
    return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)


async def create(request: web.Request) -> web.Response:
    """Open an upload, and take bytes of it if the request has some; or put one together from parts.

    `Upload-Metadata` holds `filename` and, if you like, `filetype`, `sha256` (hexadecimal), and `folder_id` or, for the
    next revision of a document, `document_id`.
    """
    _check_version(request)
    user, uploads = caller(request), request.app[TUS]
    concat = tus_headers.concat(_header(request, "Upload-Concat"))
    new = await _announced(request, concat)
    if concat is not None and concat.parts is not None:
        with _seat(request):
            session = await uploads.concatenate(user, new, concat.parts)
    else:
        with _first_chunk(request) as first:
            session = await uploads.create(user, new, first)
    headers = {"Location": f"{_PREFIX}{session.id}"} | _state(session)
    return web.Response(status=HTTPStatus.CREATED, headers=headers)


async def look(request: web.Request) -> web.Response:
    """How much of an upload has come; ends a request that still holds it, so that another may go on."""
    _check_version(request)
    session = await request.app[TUS].look(caller(request), id_in_path(request))
    headers = _state(session)
    if session.length_deferred:
        headers["Upload-Defer-Length"] = "1"
    else:
        headers["Upload-Length"] = str(session.size_bytes)
    if session.tus_metadata is not None:
        headers["Upload-Metadata"] = session.tus_metadata
    if session.concat_kind is not None:
        headers["Upload-Concat"] = tus_headers.concat_header(session.concat_kind, session.concat_parts)
    return web.Response(headers=headers)


async def append(request: web.Request) -> web.Response:
    """Take bytes from `Upload-Offset` on; after the last one `Nexarch-Document-Id` names the document."""
    _check_version(request)
    _check_bytes(request)
    offset = tus_headers.number("Upload-Offset", _header(request, "Upload-Offset"))
    if offset is None:
        raise HeaderRefused("Upload-Offset is missing.", header="Upload-Offset")
    total = tus_headers.number("Upload-Length", _header(request, "Upload-Length"))
    try:
        with _chunk(request, offset, total) as chunk:
            session = await request.app[TUS].append(caller(request), id_in_path(request), chunk)
    except OffsetConflict as error:
        answer = problem_response(request, error)
        answer.headers["Upload-Offset"] = str(error.offset)
        return answer
    return web.Response(status=HTTPStatus.NO_CONTENT, headers=_state(session))


async def end(request: web.Request) -> web.Response:
    """End an upload and remove its bytes; the document of a complete one stays."""
    _check_version(request)
    await request.app[TUS].end(caller(request), id_in_path(request))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def overridden(request: web.Request) -> web.Response:
    """PATCH, HEAD or DELETE, as `X-HTTP-Method-Override` says, for clients that cannot send them."""
    match _header(request, "X-HTTP-Method-Override"):
        case "PATCH":
            return await append(request)
        case "HEAD":
            return await look(request)
        case "DELETE":
            return await end(request)
    raise web.HTTPMethodNotAllowed(request.method, ["HEAD", "PATCH", "DELETE", "OPTIONS"])


async def _announced(request: web.Request, concat: Concat | None) -> NewSession:
    """What the headers of a creation say of the file, once its type and size are admitted."""
    is_part = concat is not None and concat.parts is None
    is_final = concat is not None and concat.parts is not None
    pairs = tus_headers.metadata(_header(request, "Upload-Metadata"))
    size = tus_headers.number("Upload-Length", _header(request, "Upload-Length"))
    deferred = tus_headers.defers_length(_header(request, "Upload-Defer-Length"))
    if [size is not None, deferred, is_final].count(True) != 1:
        raise HeaderRefused(
            "Send either Upload-Length or Upload-Defer-Length, and neither with Upload-Concat: final.",
            header="Upload-Length",
        )
    file = FileMetadata(filename=_PART) if is_part else _read(pairs)
    settings = request.app[SETTINGS]
    sha256 = None if file.sha256 is None else bytes.fromhex(file.sha256)
    async with tenant_connection(request) as conn:
        with duplicates_told():
            limit = await admit_upload(
                conn,
                settings,
                mime_type=None if is_part else file.filetype,
                size_bytes=size,
                # A file of parts may be asked for again because an answer was lost: then it is there, and is this one.
                sha256=None if is_final else sha256,
                document_id=file.document_id,
            )
    return NewSession(
        filename=file.filename,
        mime_type=file.filetype,
        size_bytes=limit if size is None else size,
        folder_id=file.folder_id,
        document_id=file.document_id,
        sha256=sha256,
        length_deferred=deferred,
        tus_metadata=tus_headers.metadata_header(pairs),
        concat_kind="partial" if is_part else None,
    )


def _first_chunk(request: web.Request) -> AbstractContextManager[Chunk | None]:
    if not request.body_exists or request.content_length == 0:
        return nullcontext()
    _check_bytes(request)
    return _chunk(request, 0, None)


def _seat(request: web.Request) -> AbstractContextManager[None]:
    """One of those for requests that bring bytes, be it out of parts; raises AtCapacity."""
    user = caller(request)
    return request.app[UPLOAD_SEATS].take(user.tenant, user.id)


def _read(pairs: Mapping[str, bytes]) -> FileMetadata:
    values = {key: pairs[key] for key in FileMetadata.model_fields if key in pairs}
    given = {key: value for key, value in values.items() if key == "filename" or value not in _NO_VALUE}
    try:
        return FileMetadata.model_validate({key: value.decode() for key, value in given.items()})
    except UnicodeDecodeError as error:
        raise HeaderRefused("Names and types are in UTF-8.", header="Upload-Metadata") from error
    except ValidationError as error:
        raise from_validation(error, "Upload-Metadata") from error


@contextmanager
def _chunk(request: web.Request, offset: int, total: int | None) -> Iterator[Chunk]:
    checksum = tus_headers.checksum(_header(request, "Upload-Checksum"))
    with raw_body(request) as body, _seat(request):
        yield Chunk(
            offset=offset,
            size=request.content_length,
            total=total,
            checksum=checksum,
            source=body,
            go_on=partial(go_on, request),
        )


def _state(session: Session) -> dict[str, str]:
    """What POST, HEAD and PATCH answer of an upload."""
    headers = {"Cache-Control": "no-store"}
    if session.concat_kind != "final" or session.state == "complete":
        headers["Upload-Offset"] = str(session.offset())
    if session.state == "open":
        headers["Upload-Expires"] = tus_headers.expires(session.expires_at)
    if session.completed_document_id is not None:
        headers["Nexarch-Document-Id"] = str(session.completed_document_id)
    return headers


def _header(request: web.Request, name: str) -> str | None:
    """The header's value; HeaderRefused if it comes twice."""
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise HeaderRefused(f"{name} comes twice.", header=name)
    return values[0] if values else None


def _check_version(request: web.Request) -> None:
    tus_headers.check_version(_header(request, "Tus-Resumable"))


def _check_bytes(request: web.Request) -> None:
    if request.content_type != CHUNK_TYPE:
        raise UnsupportedType(f"Bytes come as {CHUNK_TYPE}.", accepted=[CHUNK_TYPE])
