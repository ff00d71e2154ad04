"""A small service on the real frame: things, by people who may and may not, and handlers that fail."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID, uuid4

from aiohttp import web
from aiohttp.test_utils import TestClient
from pydantic import BaseModel, ConfigDict, Field

from nexarch.auth import PRINCIPAL, Access, Principal, User, bearer_token
from nexarch.errors import Conflict, Unauthorized
from nexarch.http import ServiceInfo, create_base_app
from nexarch.pages import PageQuery
from nexarch.routing import Route, id_in_path, json_response

Client = TestClient[web.Request, web.Application]


class NewThing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=20)
    size: int = Field(default=0, ge=0)


class Thing(BaseModel):
    id: UUID
    name: str


class NameTaken(Conflict):
    code = "name-taken"


async def create(request: web.Request, body: NewThing) -> web.Response:
    """`POST /v1/things`: add a thing.

    A name is used once.
    """
    if body.name == "taken":
        raise NameTaken("The name is in use.", name=body.name)
    return json_response(Thing(id=uuid4(), name=body.name), status=HTTPStatus.CREATED)


async def list_things(request: web.Request, query: PageQuery) -> web.Response:
    """List things."""
    return web.json_response({"limit": query.limit, "who": str(request[PRINCIPAL])})


async def broken(request: web.Request) -> web.Response:
    """Fail in a way that nobody expected."""
    raise RuntimeError("the password is hunter2")


async def show(request: web.Request) -> web.Response:
    """Show a thing."""
    return json_response(Thing(id=id_in_path(request), name="x"))


Names = Annotated[list[str], Field(max_length=2)]


async def count(request: web.Request, body: Names) -> web.Response:
    """Count names."""
    return web.json_response(len(body))


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """Fail in the middle of an answer, in the way that the path says."""
    response = web.StreamResponse()
    response.content_length = 100
    await response.prepare(request)
    await response.write(b"half of it")
    raise NameTaken("Too late.") if request.match_info["how"] == "known" else RuntimeError("Too late.")


ROUTES = [
    Route("POST", "/v1/things", create, Access.EDITOR, answer=Thing, status=HTTPStatus.CREATED, errors=[NameTaken]),
    Route("GET", "/v1/things", list_things, Access.VIEWER),
    Route("GET", r"/v1/things/{id}", show, Access.PUBLIC, answer=Thing),
    Route("GET", "/v1/broken", broken, Access.PUBLIC),
    Route("POST", "/v1/names", count, Access.PUBLIC),
    Route("GET", "/v1/breaks-off/{how}", breaks_off, Access.PUBLIC, media="text/plain"),
]


async def authenticate(request: web.Request) -> Principal | None:
    """Someone of a tenant, whose token is their role."""
    token = bearer_token(request)
    if token is None:
        return None
    if token not in {"viewer", "editor", "admin"}:
        raise Unauthorized("The token is not ours.")
    return User(id=uuid4(), tenant_id=uuid4(), tenant="acme", role=token)


def create_app() -> web.Application:
    """The service; nothing is opened."""
    return create_base_app(ServiceInfo("test-service", "1.0", "For tests."), authenticate, ROUTES)


def bearer(role: str) -> dict[str, str]:
    """The headers of someone with this role."""
    return {"Authorization": f"Bearer {role}"}
