"""Letting pages of other origins use the tus face (https://fetch.spec.whatwg.org/#http-cors-protocol).

Only those of the setting `cors_origins`; by default none. Credentials are a header that the page sets itself, never a
cookie, so nothing is allowed beyond reading the answers.
"""

from aiohttp import web

from dms_ingest.keys import SETTINGS

METHODS = "POST, HEAD, PATCH, DELETE, OPTIONS"
# What pages may send and read beside what they always may.
_SENT = (
    "Authorization, Content-Type, Tus-Resumable, Upload-Checksum, Upload-Concat, Upload-Defer-Length, Upload-Length, "
    "Upload-Metadata, Upload-Offset, X-HTTP-Method-Override, X-Request-Id, X-Requested-With, traceparent"
)
_READ = (
    "Location, Nexarch-Document-Id, Retry-After, Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, "
    "Tus-Version, Upload-Concat, Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset, "
    "X-Request-Id"
)
_REMEMBER_S = 86400  # browsers forget a preflight after 2 hours or a day, whatever stands here


def is_preflight(request: web.Request) -> bool:
    """Whether a browser asks on behalf of a page of an allowed origin what that page may do."""
    allowed, origin = request.app[SETTINGS].cors_origins, request.headers.get("Origin", "")
    return _asks(request) and origin != "" and ("*" in allowed or origin in allowed)


def add_cors(request: web.Request, response: web.StreamResponse) -> None:
    """Add what lets a page of an allowed origin read this answer, or send what it asks for."""
    allowed = request.app[SETTINGS].cors_origins
    if not allowed:
        return
    response.headers.add("Vary", "Origin")
    origin = request.headers.get("Origin", "")
    if "*" not in allowed and origin not in allowed:
        return
    response.headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else origin
    if _asks(request):
        response.headers["Access-Control-Allow-Methods"] = METHODS
        response.headers["Access-Control-Allow-Headers"] = _SENT
        response.headers["Access-Control-Max-Age"] = str(_REMEMBER_S)
    else:
        response.headers["Access-Control-Expose-Headers"] = _READ


def _asks(request: web.Request) -> bool:
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
