"""HTTP out of extracted texts."""

from itertools import count
from uuid import UUID

from aiohttp import hdrs, web

from dms_ingest import texts
from dms_ingest.keys import DOWNLOAD_SEATS, SETTINGS
from dms_ingest.views.silence import cut_if_silent, keep_little_in_socket
from nexarch.routing import id_in_path
from nexarch.tenant_module import caller, tenant_connection

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"}


async def get(request: web.Request) -> web.StreamResponse:
    """`GET /v1/documents/{id}/text`: the text that was taken out of the current revision, as UTF-8."""
    async with tenant_connection(request) as conn:
        revision_id = await texts.processed_revision(conn, id_in_path(request))
    response = web.StreamResponse(headers=_HEADERS)
    response.content_type, response.charset = "text/plain", "utf-8"
    if request.method == hdrs.METH_HEAD:
        await response.prepare(request)
        return response
    user = caller(request)
    with request.app[DOWNLOAD_SEATS].take(user.tenant, user.id):
        keep_little_in_socket(request)
        with cut_if_silent(request, request.app[SETTINGS].download_idle_s):
            await _send(request, response, revision_id)
    return response


async def _send(request: web.Request, response: web.StreamResponse, revision_id: UUID) -> None:
    await response.prepare(request)
    for number in count():
        # A connection for each part: a slow reader must hold neither a connection nor a snapshot.
        async with tenant_connection(request) as conn:
            part = await texts.text_part(conn, revision_id, number)
        if part is None:
            break
        await response.write(part.encode())
    await response.write_eof()
