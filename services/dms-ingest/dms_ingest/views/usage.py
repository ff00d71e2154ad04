"""HTTP out of what the tenant stores, and an operator's order to count it anew."""

from typing import Annotated

import structlog
from aiohttp import web
from pydantic import BaseModel, Field

from dms_ingest.keys import USAGE
from nexarch.operators import TenantQuery, tenant_of
from nexarch.routing import json_response
from nexarch.tenant_module import TENANTS, tenant_connection
from nexarch.usage import recount_storage, storage_use

log = structlog.get_logger(__name__)


class UsageAnswer(BaseModel):
    """What the tenant stores and may store, in bytes of the files as they were uploaded."""

    used_bytes: Annotated[int, Field(description="All revisions, and those in the trash; what is linked counts once")]
    quota_bytes: Annotated[int | None, Field(description="null: no limit")]


class RecountAnswer(BaseModel):
    """What a recount found, in bytes."""

    before_bytes: Annotated[int, Field(description="What the tenant's own counter said")]
    told_bytes: Annotated[int, Field(description="What core-api was told, or was about to be")]
    stored_bytes: Annotated[int, Field(description="What is stored: both are set right")]


async def recount(request: web.Request, query: TenantQuery) -> web.Response:
    """`POST /v1/usage/recount`: count anew what the tenant stores, and tell core-api what it was not told of."""
    tenant = tenant_of(request, query)
    async with request.app[TENANTS].acquire(tenant) as conn, conn.transaction():
        found = await recount_storage(conn)
    request.app[USAGE].wake(tenant)
    log.info(
        "usage counted anew",
        tenant=tenant,
        before_bytes=found.before_bytes,
        told_bytes=found.told_bytes,
        stored_bytes=found.stored_bytes,
    )
    return json_response(RecountAnswer.model_validate(found, from_attributes=True))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/usage`: how much of its quota the tenant has used."""
    async with tenant_connection(request) as conn:
        use = await storage_use(conn)
    return json_response(UsageAnswer(used_bytes=use.used_bytes, quota_bytes=use.quota_bytes))
