"""HTTP of modules and of what they say of themselves."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Self

from aiohttp import web
from pydantic import BaseModel, Field

from core_api import modules
from core_api.keys import REGISTRY
from core_api.modules import Module, Scope
from core_api.views.bodies import Body, FlagKey, ModuleId, Version, module_in_path, slug_in_path
from nexarch.auth import PRINCIPAL, Service
from nexarch.errors import Forbidden
from nexarch.pages import PageQuery, decode_cursor, page_of
from nexarch.routing import json_response

RequiredFlags = Annotated[list[FlagKey], Field(max_length=100, default_factory=list)]


class ModuleBody(Body):
    """A module's version, the flags that must be on for a tenant, and what it may ask for."""

    version: Version
    required_flags: RequiredFlags
    scopes: Annotated[list[Scope] | None, Field(max_length=10, description="What it may ask for; null: as before")] = (
        None
    )


class NewModule(ModuleBody):
    """What an operator says of a new module; without `scopes` it may ask for nothing of a tenant."""

    id: ModuleId


class Announcement(Body):
    """What a running module says of itself."""

    version: Version
    base_url: Annotated[str, Field(max_length=500, pattern=r"^https?://[^\s/]\S*$")]


class ModuleAnswer(BaseModel):
    """One module."""

    id: str
    version: str
    required_flags: list[str]
    scopes: list[Scope]
    base_url: str | None
    created_at: datetime
    announced_at: datetime | None

    @classmethod
    def of(cls, module: Module) -> Self:
        """The row as JSON."""
        return cls.model_validate(module, from_attributes=True)


class ModulePage(BaseModel):
    """A page of modules by id."""

    items: list[ModuleAnswer]
    next_cursor: str | None


class ActivationAnswer(BaseModel):
    """Whether a module is active for a tenant, and the required flags that are off."""

    module: str
    tenant: str
    tenant_status: str
    active: bool
    flags_off: list[str]


async def create(request: web.Request, body: NewModule) -> web.Response:
    """`POST /v1/modules`: register a module."""
    async with request.app[REGISTRY].acquire() as conn:
        module = await modules.register_module(conn, body.id, body.version, body.required_flags, body.scopes or [])
    return json_response(ModuleAnswer.of(module), HTTPStatus.CREATED, {"Location": f"/v1/modules/{module.id}"})


async def replace(request: web.Request, body: ModuleBody) -> web.Response:
    """`PUT /v1/modules/{id}`: change a module's version, required flags and scopes."""
    async with request.app[REGISTRY].acquire() as conn:
        module = await modules.replace_module(
            conn, module_in_path(request), body.version, body.required_flags, body.scopes
        )
    return json_response(ModuleAnswer.of(module))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/modules/{id}`: one module."""
    async with request.app[REGISTRY].acquire() as conn:
        module = await modules.get_module(conn, module_in_path(request))
    return json_response(ModuleAnswer.of(module))


async def list_(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/modules`: all modules, by id."""
    (after,) = decode_cursor(query.cursor, 1) or ("",)
    async with request.app[REGISTRY].acquire() as conn:
        rows = await modules.list_modules(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda module: (module.id,))
    return json_response(ModulePage(items=[ModuleAnswer.of(row) for row in page], next_cursor=cursor))


async def activation(request: web.Request) -> web.Response:
    """`GET /v1/modules/{id}/tenants/{slug}`: whether a module is active for a tenant, and if not, why."""
    module_id, slug = module_in_path(request), slug_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        standing = await modules.get_activation(conn, module_id, slug)
    return json_response(
        ActivationAnswer(
            module=module_id,
            tenant=slug,
            tenant_status=standing.tenant_status,
            active=standing.tenant_status == "active" and not standing.flags_off,
            flags_off=standing.flags_off,
        )
    )


async def announce(request: web.Request, body: Announcement) -> web.Response:
    """`POST /v1/modules/self/announce`: a module says which version of it runs, and where."""
    async with request.app[REGISTRY].acquire() as conn:
        module = await modules.announce(conn, calling_module(request), body.version, body.base_url)
    return json_response(ModuleAnswer.of(module))


def calling_module(request: web.Request) -> str:
    """The id of the module that sends the request."""
    principal = request[PRINCIPAL]
    if not isinstance(principal, Service):
        raise Forbidden("This call needs the right: service.", right="service")
    return principal.module_id
