"""HTTP out of stored files: conditions, ranges, headers, and the bytes."""

from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from http import HTTPStatus
from uuid import UUID

from aiohttp import ETag, hdrs, web

from dms_ingest.byte_ranges import ByteRange, RangeNotSatisfiable, requested_range
from dms_ingest.disposition import Disposition, content_disposition, content_policy
from dms_ingest.downloads import ObjectMissing, UnlockedRevision, unlock_revision
from dms_ingest.keys import DOWNLOAD_SEATS, READINGS, SETTINGS, STORAGE
from dms_ingest.revisions import SealedRevision, sealed_revision
from dms_ingest.views.revisions import revision_number
from dms_ingest.views.silence import cut_if_silent, keep_little_in_socket
from nexarch import audit
from nexarch.audit import Action, current_client
from nexarch.module import CORE
from nexarch.problems import problem_response
from nexarch.routing import id_in_path
from nexarch.tenant_module import TENANTS, caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A stored file on its way to somebody: what it is, and how it is shown to them."""

    tenant: str
    tenant_id: UUID
    document_id: UUID  # from the request
    revision: SealedRevision
    name: str
    disposition: Disposition = "attachment"
    headers: Mapping[str, str]
    user_id: UUID | None = None  # who asks for it; None: whoever has the link
    link_key_id: str | None = None  # that signed the link which leads here


async def current(request: web.Request) -> web.StreamResponse:
    """`GET /v1/documents/{id}/content`: the bytes of the current revision, whole or one range of them."""
    return await _of_caller(request, None)


async def of_revision(request: web.Request) -> web.StreamResponse:
    """`GET /v1/documents/{id}/revisions/{number}/content`: the bytes of any revision, whole or one range of them."""
    return await _of_caller(request, revision_number(request))


async def _of_caller(request: web.Request, number: int | None) -> web.StreamResponse:
    user = caller(request)
    document_id = id_in_path(request)
    async with request.app[TENANTS].acquire(user.tenant) as conn:
        revision = await sealed_revision(conn, document_id, number)
    download = Download(
        tenant=user.tenant,
        tenant_id=await request.app[TENANTS].tenant_id(user.tenant),
        document_id=document_id,
        revision=revision,
        name=revision.document_name,
        # A browser may keep it for this person, but asks each time whether they still may see it.
        headers={hdrs.CACHE_CONTROL: "private, no-cache", hdrs.VARY: hdrs.AUTHORIZATION},
        user_id=user.id,
    )
    return await send(request, download)


async def send(request: web.Request, download: Download) -> web.StreamResponse:
    """Answer with a stored file as RFC 9110 has it: conditions first (13.2.2), then the range (14.2)."""
    revision = download.revision
    etag = ETag(revision.checksum_sha256.hex())
    modified = revision.created_at.replace(microsecond=0)
    headers = {
        **download.headers,
        hdrs.ETAG: f'"{etag.value}"',
        hdrs.LAST_MODIFIED: format_datetime(modified.astimezone(UTC), usegmt=True),
        hdrs.ACCEPT_RANGES: "bytes",
        "X-Content-Type-Options": "nosniff",
    }
    if _unmet(request, etag, modified):
        return web.Response(status=HTTPStatus.PRECONDITION_FAILED, headers=headers)
    if _unchanged(request, etag, modified):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    try:
        wanted = _wanted_range(request, etag, modified, revision.size_bytes)
    except RangeNotSatisfiable as error:
        answer = problem_response(request, error)
        answer.headers[hdrs.CONTENT_RANGE] = f"bytes */{revision.size_bytes}"
        return answer
    headers |= {
        hdrs.CONTENT_TYPE: revision.mime_type,
        hdrs.CONTENT_DISPOSITION: content_disposition(download.disposition, download.name, revision.mime_type),
        "Content-Security-Policy": content_policy(revision.mime_type),
    }
    part = wanted or ByteRange(0, revision.size_bytes, revision.size_bytes)
    response = web.StreamResponse(status=HTTPStatus.OK, headers=headers)
    if wanted is not None:
        response.set_status(HTTPStatus.PARTIAL_CONTENT)
        response.headers[hdrs.CONTENT_RANGE] = wanted.content_range
    response.content_length = part.stop - part.start
    if request.method == hdrs.METH_HEAD:
        await response.prepare(request)
        return response
    try:
        with request.app[DOWNLOAD_SEATS].take(download.tenant, _who(download)):
            async with aclosing(_pieces(request, download, part, wanted)) as pieces:
                # If the rest is damaged, the frame breaks the connection: a body that ends early is no whole.
                await send_chunks(request, response, pieces)
    except ObjectMissing:
        await _row(request, download)  # RevisionNotFound if it was removed for good meanwhile: nothing is missing then
        raise
    await response.write_eof()
    return response


async def send_chunks(request: web.Request, response: web.StreamResponse, chunks: AsyncIterator[memoryview]) -> None:
    """Send each chunk to its last byte before the next is asked for, which comes into the same buffer.

    The head waits for the first one: what is wrong from the start can still be said.
    """
    chunk = await anext(chunks, None)
    writer = await response.prepare(request)
    assert writer is not None  # only a response that was sent has none
    if request.transport is not None:  # else the client is gone, as `write` says
        request.transport.set_write_buffer_limits(0)  # now `drain` waits until the transport holds nothing
    while chunk is not None:
        await response.write(chunk)
        await writer.drain()
        chunk = await anext(chunks, None)


def _who(download: Download) -> Hashable:
    """Whose download it is; with a link, that of whoever is at the same address."""
    client = current_client.get()
    return download.user_id or (None if client is None else client.address)


async def _pieces(
    request: web.Request, download: Download, part: ByteRange, wanted: ByteRange | None
) -> AsyncGenerator[memoryview, None]:
    """The bytes; that they are given out is recorded when the first ones are there, and before one leaves."""
    unlocked = await _unlock(request, download)
    opening = partial(unlocked.open, stop=part.stop)
    readings = request.app[READINGS]
    async with aclosing(readings.read(opening, part.start, part.stop)) as pieces:
        first = await anext(pieces, None)
        await _record(request, download, wanted)
        if first is None:
            return
        if readings.is_crowd:
            keep_little_in_socket(request)
        with cut_if_silent(request, request.app[SETTINGS].download_idle_s):
            yield first
            async for piece in pieces:
                yield piece


async def _record(request: web.Request, download: Download, part: ByteRange | None) -> None:
    """Tell the audit trail before a byte leaves: where that fails, the download does too."""
    async with request.app[TENANTS].acquire(download.tenant) as conn:
        await audit.record(
            conn,
            Action.DOCUMENT_DOWNLOADED if download.link_key_id is None else Action.LINK_FOLLOWED,
            user_id=download.user_id,
            document_id=download.document_id,
            revision_id=download.revision.id,
            link_key_id=download.link_key_id,
            details={} if part is None else {"range": part.content_range},
        )


async def _row(request: web.Request, download: Download) -> SealedRevision:
    """The revision's row as it is now; RevisionNotFound."""
    async with request.app[TENANTS].acquire(download.tenant) as conn:
        return await sealed_revision(conn, download.document_id, download.revision.number)


async def _unlock(request: web.Request, download: Download) -> UnlockedRevision:
    return await unlock_revision(
        request.app[CORE],
        request.app[STORAGE],
        tenant=download.tenant,
        tenant_id=download.tenant_id,
        document_id=download.document_id,
        revision=download.revision,
        read_again=lambda: _row(request, download),
    )


def _unmet(request: web.Request, etag: ETag, modified: datetime) -> bool:
    """Whether `If-Match` or, without it, `If-Unmodified-Since` fails."""
    if (tags := request.if_match) is not None:
        return not any(tag.value == "*" or (tag.value == etag.value and not tag.is_weak) for tag in tags)
    since = _date(request, hdrs.IF_UNMODIFIED_SINCE)
    return since is not None and modified > since


def _unchanged(request: web.Request, etag: ETag, modified: datetime) -> bool:
    """Whether the caller has this file already: `If-None-Match` or, without it, `If-Modified-Since`."""
    if (tags := request.if_none_match) is not None:
        return any(tag.value in {"*", etag.value} for tag in tags)
    since = _date(request, hdrs.IF_MODIFIED_SINCE)
    return since is not None and modified <= since


def _date(request: web.Request, header: str) -> datetime | None:
    """The date of a condition; what is not a date counts as if it had not been sent (RFC 9110, 13.1.3)."""
    try:
        return request.if_modified_since if header == hdrs.IF_MODIFIED_SINCE else request.if_unmodified_since
    except OverflowError:  # of a year that no clock will show
        return None


def _wanted_range(request: web.Request, etag: ETag, modified: datetime, size: int) -> ByteRange | None:
    """The range to send; None for the whole: without `Range`, for HEAD, and if `If-Range` names another file."""
    if request.method != hdrs.METH_GET:
        return None
    if (condition := request.headers.get(hdrs.IF_RANGE)) is not None:
        same = {f'"{etag.value}"', format_datetime(modified.astimezone(UTC), usegmt=True)}
        if condition.strip() not in same:
            return None
    return requested_range(request.headers.get(hdrs.RANGE), size)
