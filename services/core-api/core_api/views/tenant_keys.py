"""HTTP of tenants' keys: their versions, rotation, retirement and destruction. The keys themselves go to modules
only, see `core_api.views.for_modules`.
"""

from datetime import datetime
from typing import Annotated, Self

from aiohttp import web
from pydantic import BaseModel, Field

from core_api.key_rotation import KeyRotation
from core_api.keys import MASTER_KEY, REGISTRY, TENANT_DATABASES
from core_api.modules import Scope, admit
from core_api.tenant_keys import KeyVersion, list_versions
from core_api.tenants import get_tenant
from core_api.views.bodies import Body, Slug, slug_in_path
from core_api.views.modules import calling_module
from nexarch.auth import PRINCIPAL, Service
from nexarch.errors import Invalid
from nexarch.routing import json_response


class NotConfirmed(Invalid):
    """The body's `confirm` is not the slug of the tenant in the path."""

    code = "not-confirmed"
    title = "The confirmation names another tenant"


class KeyVersionAnswer(BaseModel):
    """One version of a tenant's key; the dates say since when it is in its state."""

    version: int
    state: Annotated[str, Field(examples=["active", "retiring", "retired", "shredded"])]
    created_at: datetime
    retired_at: datetime | None
    shredded_at: datetime | None


class KeyVersions(BaseModel):
    """All versions of a tenant's key, newest first."""

    items: list[KeyVersionAnswer]

    @classmethod
    def of(cls, versions: list[KeyVersion]) -> Self:
        """The rows as JSON."""
        return cls(items=[KeyVersionAnswer.model_validate(row, from_attributes=True) for row in versions])


class Confirmation(Body):
    """That this tenant is meant."""

    confirm: Annotated[Slug, Field(description="The tenant's slug once more")]


async def versions(request: web.Request) -> web.Response:
    """`GET /v1/tenants/{slug}/kek/versions`: the versions of the tenant's key and what became of them."""
    slug = slug_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        if isinstance(request[PRINCIPAL], Service):
            tenant_id = await admit(conn, calling_module(request), slug, Scope.KEK)
        else:
            tenant_id = (await get_tenant(conn, slug)).id
        rows = await list_versions(conn, tenant_id)
    return json_response(KeyVersions.of(rows))


async def rotate(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/kek/rotate`: wrap under a new key from now on; no file is rewritten.

    What is wrapped under older versions is wrapped anew by the workers, and then those are retired.
    """
    return json_response(KeyVersions.of(await _rotation(request).rotate(slug_in_path(request))))


async def retire(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/kek/retire`: retire the older versions that nothing is wrapped under any more.

    Versions that are still `retiring` in the answer are in use.
    """
    slug = slug_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        await admit(conn, calling_module(request), slug, Scope.KEK)
    return json_response(KeyVersions.of(await _rotation(request).retire_unused(slug)))


async def shred(request: web.Request, body: Confirmation) -> web.Response:
    """`POST /v1/tenants/{slug}/kek/shred`: destroy all keys of a suspended tenant; nobody can undo it."""
    slug = slug_in_path(request)
    if body.confirm != slug:
        raise NotConfirmed("The member `confirm` must be the slug of the tenant in the path.")
    return json_response(KeyVersions.of(await _rotation(request).shred(slug)))


def _rotation(request: web.Request) -> KeyRotation:
    app = request.app
    return KeyRotation(app[REGISTRY], app[TENANT_DATABASES], app[MASTER_KEY])
