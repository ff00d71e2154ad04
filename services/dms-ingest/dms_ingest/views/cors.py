"""Letting pages of other origins use this service (https://fetch.spec.whatwg.org/#http-cors-protocol).

Only those of the setting `cors_origins`; by default none. Credentials are a header that the page sets itself, never a
cookie, so nothing is allowed beyond sending what our routes take, and reading what they answer.
"""

from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from dms_ingest.keys import SETTINGS

_OPEN = ("/files/", "/v1/")  # not health, metrics and documentation
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
# What pages may send and read beside what they always may.
_SENT = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-Modified-Since, If-None-Match, If-Range, "
    "If-Unmodified-Since, Range, Tus-Resumable, Upload-Checksum, Upload-Concat, Upload-Defer-Length, Upload-Length, "
    "Upload-Metadata, Upload-Offset, X-HTTP-Method-Override, X-Request-Id, X-Requested-With, traceparent, tracestate"
)
_READ = (
    "Accept-Ranges, Allow, Content-Disposition, Content-Range, ETag, Location, Nexarch-Document-Id, Retry-After, "
    "Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Concat, "
    "Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset, WWW-Authenticate, X-Request-Id"
)
_REMEMBER_S = 86400  # browsers forget a preflight after 2 hours or a day, whatever stands here


@web.middleware
async def answer_preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell a browser what a page of an allowed origin may do, before anybody is asked who they are.

    It asks without the page's token, also for paths that there are not: those it learns of from the request itself.
    """
    if _is_preflight(request) and _allowed_origin(request) is not None:
        return web.Response(status=HTTPStatus.NO_CONTENT)
    return await handler(request)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal of the application: what lets a page of an allowed origin read this answer, errors too."""
    if not request.app[SETTINGS].cors_origins or not request.path.startswith(_OPEN):
        return
    response.headers.add(hdrs.VARY, hdrs.ORIGIN)
    origin = _allowed_origin(request)
    if origin is None:
        return
    response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
    if _is_preflight(request):
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = _METHODS
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = _SENT
        response.headers[hdrs.ACCESS_CONTROL_MAX_AGE] = str(_REMEMBER_S)
    else:
        response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _READ


def _allowed_origin(request: web.Request) -> str | None:
    """What `Access-Control-Allow-Origin` says to this request; None where it gets no such header."""
    allowed, origin = request.app[SETTINGS].cors_origins, request.headers.get(hdrs.ORIGIN, "")
    if origin == "" or not request.path.startswith(_OPEN):
        return None
    if "*" in allowed:
        return "*"
    return origin if origin in allowed else None


def _is_preflight(request: web.Request) -> bool:
    return request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
