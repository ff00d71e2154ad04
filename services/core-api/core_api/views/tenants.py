"""HTTP of tenants."""

from datetime import datetime
from http import HTTPStatus
from typing import Self
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel

from core_api import tenants
from core_api.keys import PROVISIONER, REGISTRY
from core_api.tenants import Tenant
from core_api.views.bodies import Body, Name, Slug, slug_in_path
from nexarch.idempotency import idempotency_key
from nexarch.pages import PageQuery, decode_cursor, page_of
from nexarch.routing import json_response


class NewTenant(Body):
    """What an operator says of a new tenant."""

    slug: Slug
    name: Name


class TenantAnswer(BaseModel):
    """One tenant."""

    id: UUID
    slug: str
    name: str
    status: str
    schema_version: int
    active_at: datetime
    idle_s: float
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """The row as JSON."""
        return cls.model_validate(tenant, from_attributes=True)


class TenantPage(BaseModel):
    """A page of tenants by slug."""

    items: list[TenantAnswer]
    next_cursor: str | None


async def create(request: web.Request, body: NewTenant) -> web.Response:
    """`POST /v1/tenants`: make a tenant with its database, role and key, or finish one whose making was cut off.

    With an `Idempotency-Key` the same request again is answered with the tenant that the first one made.
    """
    key = idempotency_key(request.headers)
    tenant = await request.app[PROVISIONER].create_tenant(body.slug, body.name, key)
    location = f"/v1/tenants/{tenant.slug}"
    return json_response(TenantAnswer.of(tenant), HTTPStatus.CREATED, {"Location": location})


async def list_(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/tenants`: all tenants, by slug."""
    (after,) = decode_cursor(query.cursor, 1) or ("",)
    async with request.app[REGISTRY].acquire() as conn:
        rows = await tenants.list_tenants(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda tenant: (tenant.slug,))
    return json_response(TenantPage(items=[TenantAnswer.of(row) for row in page], next_cursor=cursor))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/tenants/{slug}`: one tenant."""
    async with request.app[REGISTRY].acquire() as conn:
        tenant = await tenants.get_tenant(conn, slug_in_path(request))
    return json_response(TenantAnswer.of(tenant))


async def suspend(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/suspend`: serve nothing of it any more, and end its sessions."""
    async with request.app[REGISTRY].acquire() as conn:
        tenant = await tenants.suspend_tenant(conn, slug_in_path(request))
    return json_response(TenantAnswer.of(tenant))


async def resume(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/resume`: serve it again."""
    async with request.app[REGISTRY].acquire() as conn:
        tenant = await tenants.resume_tenant(conn, slug_in_path(request))
    return json_response(TenantAnswer.of(tenant))
