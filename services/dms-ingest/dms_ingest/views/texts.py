"""HTTP out of extracted texts."""

from itertools import count

from aiohttp import hdrs, web

from dms_ingest import texts
from nexarch.routing import id_in_path
from nexarch.tenant_module import tenant_connection

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"}


async def get(request: web.Request) -> web.StreamResponse:
    """`GET /v1/documents/{id}/text`: the text that was taken out of the current revision, as UTF-8."""
    async with tenant_connection(request) as conn:
        revision_id = await texts.processed_revision(conn, id_in_path(request))
    response = web.StreamResponse(headers=_HEADERS)
    response.content_type, response.charset = "text/plain", "utf-8"
    await response.prepare(request)
    if request.method == hdrs.METH_HEAD:
        return response
    for number in count():
        # A connection for each part: a slow reader must hold neither a connection nor a snapshot.
        async with tenant_connection(request) as conn:
            part = await texts.text_part(conn, revision_id, number)
        if part is None:
            break
        await response.write(part.encode())
    await response.write_eof()
    return response
