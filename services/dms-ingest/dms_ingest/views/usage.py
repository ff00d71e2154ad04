"""HTTP out of what the tenant stores."""

from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, Field

from nexarch.routing import json_response
from nexarch.tenant_module import tenant_connection
from nexarch.usage import storage_use


class UsageAnswer(BaseModel):
    """What the tenant stores and may store, in bytes of the files as they were uploaded."""

    used_bytes: Annotated[int, Field(description="All revisions, and those in the trash; what is linked counts once")]
    quota_bytes: Annotated[int | None, Field(description="null: no limit")]


async def get(request: web.Request) -> web.Response:
    """`GET /v1/usage`: how much of its quota the tenant has used."""
    async with tenant_connection(request) as conn:
        use = await storage_use(conn)
    return json_response(UsageAnswer(used_bytes=use.used_bytes, quota_bytes=use.quota_bytes))
