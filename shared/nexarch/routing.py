"""The route table: every method and path of a service, whom it serves, and what goes in and out.

A handler says in its signature what it takes: `async def create(request, body: NewTenant)`; `body` and `query` are
pydantic models, read and checked here before the handler runs. The same table makes the OpenAPI document.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, get_type_hints
from uuid import UUID

import structlog
from aiohttp import hdrs, web
from pydantic import BaseModel, TypeAdapter, ValidationError

from nexarch.auth import OPEN, PRINCIPAL, Access, Authenticator, Principal, User, require
from nexarch.errors import Invalid, NexarchError, NotFound, Unauthorized, UnsupportedType
from nexarch.problems import from_validation
from nexarch.seats import Seats

UNMATCHED = "unmatched"  # the name of the resource that takes what no route does
_CONTINUE = "100-continue"
_BODY_TIMEOUT_S = 120.0  # for a whole JSON body: what came of it is held meanwhile
_BODIES_ROOM = 64 << 20  # bytes of all larger bodies at once, from when they are announced until they are answered
SMALL_BODY = 64 << 10  # bytes; such a body needs no room: its line alone holds as much

RouteHandler = Callable[..., Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """One line of a route table.

    `answer` is the model of a JSON answer (None: no body, or bytes of `media`), `errors` what a caller can act on.
    """

    method: str
    path: str
    handler: RouteHandler
    access: Access
    answer: Any = None
    status: HTTPStatus = HTTPStatus.OK
    errors: Sequence[type[NexarchError]] = ()
    media: str | None = None  # of a streamed answer
    takes: str | None = None  # media type of a streamed request body
    max_body: int = 1 << 20  # bytes of a JSON body

    @cached_property
    def inputs(self) -> Mapping[str, TypeAdapter[Any]]:
        """The models that the handler's signature names: of its `body` and its `query`."""
        hints = get_type_hints(self.handler, include_extras=True)
        names = inspect.signature(self.handler).parameters
        return {name: TypeAdapter(hints[name]) for name in ("body", "query") if name in names}


def add_routes(
    app: web.Application, routes: Sequence[Route], authenticate: Authenticator, *, unguarded: Access = OPEN
) -> None:
    """Put a route table into an application; GET answers HEAD too. `unguarded` routes ask nobody who they are.

    Once for an application: what no route of the table takes is answered too.
    """
    bodies = Seats(_BODIES_ROOM, "large bodies")
    for route in routes:
        handler, expect = _guarded(route, authenticate, unguarded, bodies), _early_answer(route)
        if route.method == "GET":
            app.router.add_get(route.path, handler, expect_handler=expect)
        else:
            app.router.add_route(route.method, route.path, handler, expect_handler=expect)
    rest = _rest(authenticate, tells=bool(unguarded & Access.INTERNAL))
    app.router.add_route("*", "/{path:.*}", rest, name=UNMATCHED, expect_handler=_nothing_expected)


def _rest(authenticate: Authenticator, *, tells: bool) -> RouteHandler:
    """404 where there is no such path, 405 where it has other methods; 401 to a stranger unless it `tells` all."""

    async def handle(request: web.Request) -> web.StreamResponse:
        methods = [await resource.resolve(request) for resource in request.app.router.resources()]
        allowed = {method for _, allowed in methods for method in allowed} - {hdrs.METH_ANY}
        if not allowed:
            raise web.HTTPNotFound
        if not tells:
            require(await authenticate(request), Access.INTERNAL)
        raise web.HTTPMethodNotAllowed(request.method, allowed)

    return handle


async def _nothing_expected(request: web.Request) -> None:
    """Where nobody reads a body none is asked for; aiohttp's own answer would be "go on", or 417 without a problem."""


def _guarded(route: Route, authenticate: Authenticator, unguarded: Access, bodies: Seats) -> RouteHandler:
    async def handle(request: web.Request) -> web.StreamResponse:
        principal = None
        # Health and sign-in must not hang on credentials that nobody asked for, nor on the database behind them.
        if not route.access & unguarded:
            principal = await authenticate(request)
            require(principal, route.access)
            assert principal is not None
            request[PRINCIPAL] = principal
            structlog.contextvars.bind_contextvars(**_who(principal))
            if request.headers.get("Expect", _CONTINUE).lower() != _CONTINUE:
                raise web.HTTPExpectationFailed
        values: dict[str, Any] = {}
        if (query := route.inputs.get("query")) is not None:
            values["query"] = _read_query(request, query)
        if (body := route.inputs.get("body")) is None:
            return await route.handler(request, **values)
        with _room(bodies, principal, request, route.max_body):
            read = _read_credentials if route.access & Access.SIGN_IN else _read_body
            values["body"] = await read(request, body, route.max_body)
            return await route.handler(request, **values)

    return handle


def _who(principal: object) -> dict[str, str]:
    fields = {"tenant": "tenant", "client_id": "client_id", "name": "operator"}
    return {as_: str(getattr(principal, of)) for of, as_ in fields.items() if hasattr(principal, of)}


def _room(bodies: Seats, principal: Principal | None, request: web.Request, limit: int) -> AbstractContextManager[None]:
    """Room for a body to come, and for what is made of it; one whose size nobody says is as large as it may be."""
    unpacked = request.content_length if hdrs.CONTENT_ENCODING not in request.headers else None
    size = limit if unpacked is None else min(unpacked, limit)
    if size <= SMALL_BODY:
        return nullcontext()
    return bodies.take(*_holder(principal), size)


def _holder(principal: Principal | None) -> tuple[str, Hashable]:
    """A tenant and somebody in it; whoever belongs to none shares as the people of a tenant do."""
    return (principal.tenant, principal.id) if isinstance(principal, User) else ("", principal)


def _read_query(request: web.Request, model: TypeAdapter[Any]) -> Any:  # noqa: ANN401 - the model decides
    names = request.query.keys()
    repeated = {name for name in names if len(request.query.getall(name)) > 1}
    values = {name: request.query.getall(name) if name in repeated else request.query[name] for name in names}
    try:
        return model.validate_python(values)
    except ValidationError as error:
        raise from_validation(error, "?") from error


async def _read_body(request: web.Request, model: TypeAdapter[Any], limit: int) -> Any:  # noqa: ANN401
    if request.content_type != "application/json":
        raise UnsupportedType("This call takes application/json.", accepted=["application/json"])
    raw = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for chunk in request.content.iter_any():
                raw += chunk
                if len(raw) > limit:
                    raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=len(raw))
    except TimeoutError as error:
        raise web.HTTPRequestTimeout from error
    try:
        return model.validate_json(bytes(raw))
    except ValidationError as error:
        raise from_validation(error) from error


async def _read_credentials(request: web.Request, model: TypeAdapter[Any], limit: int) -> Any:  # noqa: ANN401
    try:
        return await _read_body(request, model, limit)
    except (Invalid, UnsupportedType) as error:
        raise Unauthorized(f"Credentials are expected in the body. {error.detail}", **error.members) from error
    except (web.HTTPRequestEntityTooLarge, web.HTTPRequestTimeout, web.RequestPayloadError) as error:
        raise Unauthorized(
            "Credentials are expected in the body, which is too large, too slow or not encoded as said."
        ) from error


def _early_answer(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """`Expect: 100-continue`: say "go on" only after the handler asked for the body, see `go_on`.

    aiohttp calls this outside of the middlewares, so what is wrong is said later, in the handler.
    """

    async def expect(request: web.Request) -> None:
        if route.takes is None:
            await go_on(request)

    return expect


async def go_on(request: web.Request) -> None:
    """Ask a client that waits with `Expect: 100-continue` for its body (RFC 9110, 10.1.1)."""
    if request.headers.get("Expect", "").lower() == _CONTINUE:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


def json_response(
    answer: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Answer with a model as JSON."""
    return web.Response(
        body=answer.model_dump_json().encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )


def id_in_path(request: web.Request, name: str = "id") -> UUID:
    """A UUID out of the path; anything else is the id of nothing, so `NotFound`."""
    try:
        return UUID(request.match_info[name])
    except ValueError as error:
        raise NotFound("There is no such thing.") from error
