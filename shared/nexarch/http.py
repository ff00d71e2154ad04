"""The frame of every service: request ids, traces, log lines, health, metrics, OpenAPI, routes, in one place.

app = create_base_app(service, authenticate, ROUTES)
app.cleanup_ctx.append(...)
serve(app, settings)                               # nexarch.serve
"""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from nexarch import docs_page, openapi, tracing
from nexarch.auth import OPEN, Access, Authenticator
from nexarch.errors import NotReady
from nexarch.metrics import HttpMetrics, exposition, new_registry
from nexarch.problems import REQUEST_ID, problems
from nexarch.routing import UNMATCHED, Route, add_routes

log = structlog.get_logger(__name__)

# Raises if the dependency is away; the exception's text is logged, its type is shown, of NotReady the text as well.
Check = Callable[[], Awaitable[object]]

DRAINING: web.AppKey[asyncio.Event] = web.AppKey("draining", asyncio.Event)
CHECKS: web.AppKey[dict[str, Check]] = web.AppKey("checks", dict)
METRICS: web.AppKey[CollectorRegistry] = web.AppKey("metrics", CollectorRegistry)
# What `serve` puts on `internal_port`: health, metrics and documentation, open to whoever comes there.
INTERNAL: web.AppKey[web.Application] = web.AppKey("internal", web.Application)
_HTTP_METRICS: web.AppKey[HttpMetrics] = web.AppKey("http_metrics", HttpMetrics)

_REQUEST_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_CHECK_TIMEOUT_S = 2.0
_CHECK_CACHE_S = 1.0
_QUIET = {"/livez", "/readyz", "/healthz", "/metrics"}  # asked every few seconds: logged only when they fail


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """What a service says of itself in its OpenAPI document."""

    name: str  # core-api
    version: str
    description: str


def create_base_app(
    service: ServiceInfo, authenticate: Authenticator, routes: Sequence[Route], *, internal: bool = False
) -> web.Application:
    """Make an application with the frame around a route table; opens nothing.

    The service adds its resources to `cleanup_ctx` and its required dependencies to `app[CHECKS]`. With `internal`
    the frame's routes are open in `app[INTERNAL]` alone; the application itself asks for credentials there.
    """
    app = _new_app()
    app[DRAINING] = asyncio.Event()
    app.on_shutdown.append(_drain)
    app[CHECKS] = {}
    app[METRICS] = new_registry()
    app[_HTTP_METRICS] = HttpMetrics(app[METRICS])
    frame = _frame_routes(service, routes)
    add_routes(app, [*routes, *frame], authenticate, unguarded=OPEN if internal else OPEN | Access.INTERNAL)
    if internal:
        app[INTERNAL] = _internal_app(app, frame, authenticate)
    return app


def _internal_app(app: web.Application, frame: Sequence[Route], authenticate: Authenticator) -> web.Application:
    """The frame's routes alone, telling of the state of `app`."""
    inner = _new_app()
    inner[DRAINING], inner[CHECKS] = app[DRAINING], app[CHECKS]
    inner[METRICS], inner[_HTTP_METRICS] = app[METRICS], app[_HTTP_METRICS]
    add_routes(inner, frame, authenticate, unguarded=OPEN | Access.INTERNAL)
    return inner


def _new_app() -> web.Application:
    app = web.Application(middlewares=[_context, problems])
    app.on_response_prepare.append(_add_request_id)
    return app


def openapi_document(service: ServiceInfo, routes: Sequence[Route]) -> openapi.Document:
    """What the service answers at /openapi.json: its own routes and those of the frame."""
    return _document(service, routes, _frame_routes(service, routes))


def _document(service: ServiceInfo, routes: Sequence[Route], frame: Sequence[Route]) -> openapi.Document:
    return openapi.document(f"NEXARCH {service.name}", service.version, service.description, [*routes, *frame])


def _frame_routes(service: ServiceInfo, routes: Sequence[Route]) -> list[Route]:
    cache = _ReadinessCache()

    async def ready(request: web.Request) -> web.Response:
        """Whether every required dependency answers; 503 with the failed checks, and while draining."""
        failed = await cache.failed(request.app)
        body = {"status": "unavailable" if failed else "ok", "failed": failed}
        return web.json_response(body, status=503 if failed else 200)

    async def spec(request: web.Request) -> web.Response:
        """This document."""
        return web.json_response(document)

    async def docs(request: web.Request) -> web.Response:
        """This document for people."""
        return docs_page.page(document)

    table = [
        Route("GET", "/livez", live, Access.INTERNAL, media="application/json"),
        Route("GET", "/healthz", live, Access.INTERNAL, media="application/json"),
        Route("GET", "/readyz", ready, Access.INTERNAL, media="application/json"),
        Route("GET", "/metrics", metrics, Access.INTERNAL, media="text/plain"),
        Route("GET", "/openapi.json", spec, Access.INTERNAL, media="application/json"),
        Route("GET", "/docs", docs, Access.INTERNAL, media="text/html"),
    ]
    document = _document(service, routes, table)
    return table


async def live(request: web.Request) -> web.Response:
    """Whether the loop runs; asks no dependency."""
    return web.json_response({"status": "ok"})


async def metrics(request: web.Request) -> web.Response:
    """Prometheus' text format."""
    return exposition(request.app[METRICS])


class _ReadinessCache:
    """Runs the checks at most once a second, so that asking often costs a dependency nothing."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._at = -_CHECK_CACHE_S
        self._failed: dict[str, str] = {}

    async def failed(self, app: web.Application) -> dict[str, str]:
        if app[DRAINING].is_set():
            return {"draining": "the service is stopping"}
        async with self._lock:
            if time.monotonic() - self._at >= _CHECK_CACHE_S:
                names = app[CHECKS]
                results = await asyncio.gather(*(_failure(name, check) for name, check in names.items()))
                self._failed = {name: why for name, why in zip(names, results, strict=True) if why}
                self._at = time.monotonic()
            return self._failed


async def _failure(name: str, check: Check) -> str | None:
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            await check()
    except NotReady as error:
        log.warning("readiness check failed", check=name, reason=error.detail)
        return error.detail
    except Exception as error:  # noqa: BLE001 - whatever a check raises means that it failed
        log.warning("readiness check failed", check=name, reason=f"{type(error).__name__}: {error}")
        return type(error).__name__
    return None


@web.middleware
async def _context(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Bind request id and trace to all that happens in a request, count it and log one line for it."""
    given = request.headers.get("X-Request-Id", "")
    request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
    request[REQUEST_ID] = request_id
    trace = tracing.continue_trace(request.headers.get("traceparent")).trace
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id, trace_id=trace.trace_id, span_id=trace.span_id)
    counters = request.app[_HTTP_METRICS]
    resource = request.match_info.route.resource  # None where no path is asked for: `OPTIONS *`, `CONNECT host:80`
    route = UNMATCHED if resource is None else resource.name or resource.canonical
    started = time.monotonic()
    status = 499  # the client went away
    with counters.running.track_inprogress():
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as redirect:
            status = redirect.status
            raise
        finally:
            took = time.monotonic() - started
            # When the loop comes to it, the answer is on its way.
            asyncio.get_running_loop().call_soon(_note, counters, request.method, route, status, took)
    return response


def _note(counters: HttpMetrics, method: str, route: str, status: int, seconds: float) -> None:
    """Count a request that was answered, and log it."""
    counters.requests.labels(method, route, str(status)).inc()
    counters.seconds.labels(method, route).observe(seconds)
    if route not in _QUIET or status >= HTTPStatus.BAD_REQUEST:
        log.info("request", method=method, route=route, status=status, ms=round(seconds * 1000, 1))


async def _drain(app: web.Application) -> None:
    """Whoever stops the application, its loops learn of it before their resources are closed."""
    app[DRAINING].set()


async def _add_request_id(request: web.Request, response: web.StreamResponse) -> None:
    if (request_id := request.get(REQUEST_ID)) is not None:
        response.headers["X-Request-Id"] = request_id
