"""HTTP of usage for operators."""

from datetime import datetime
from typing import Annotated

import structlog
from aiohttp import web
from pydantic import BaseModel, Field

from core_api import usage
from core_api.keys import REGISTRY
from core_api.tenants import get_tenant
from core_api.views.bodies import slug_in_path
from nexarch.pages import PageQuery, decode_cursor, page_of
from nexarch.routing import json_response

log = structlog.get_logger(__name__)


class UsageQuery(PageQuery):
    """A page, of one tenant where its slug is given."""

    tenant: Annotated[str | None, Field(max_length=100)] = None


class UsageTotal(BaseModel):
    """What a tenant uses of one metric (`storage_bytes`: bytes)."""

    tenant_slug: str
    metric: str
    value: int
    updated_at: datetime


class UsagePage(BaseModel):
    """A page of totals by tenant and metric."""

    items: list[UsageTotal]
    next_cursor: str | None


class Corrected(BaseModel):
    """By how many bytes the total of `storage_bytes` was too low (below 0: too high)."""

    corrected_bytes: int


async def recount(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/usage/recount`: set the tenant's totals to the sums of what modules have reported."""
    async with request.app[REGISTRY].acquire() as conn, conn.transaction():
        tenant = await get_tenant(conn, slug_in_path(request))
        corrected = await usage.recount(conn, tenant.id)
    log.info("usage summed up anew", tenant=tenant.slug, corrected_bytes=corrected)
    return json_response(Corrected(corrected_bytes=corrected))


async def list_(request: web.Request, query: UsageQuery) -> web.Response:
    """`GET /v1/usage`: what each tenant uses."""
    slug, metric = decode_cursor(query.cursor, 2) or ("", "")
    async with request.app[REGISTRY].acquire() as conn:
        rows = await usage.list_usage(conn, tenant=query.tenant, after=(slug, metric), limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda total: (total.tenant_slug, total.metric))
    items = [UsageTotal.model_validate(row, from_attributes=True) for row in page]
    return json_response(UsagePage(items=items, next_cursor=cursor))
