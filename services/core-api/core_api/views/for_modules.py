"""HTTP for modules: a tenant's database, its key, its usage, and the object store that they have in common.

Each that is about a tenant asks `modules.admit` first, so an inactive module, a missing right or a suspended tenant is
refused in one place.
"""

import base64
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from core_api import module_stores, usage
from core_api.keys import MASTER_KEY, REGISTRY, SETTINGS
from core_api.modules import Scope, admit
from core_api.tenant_access import open_login
from core_api.tenant_keys import open_key
from core_api.usage import Delta
from core_api.views.bodies import Body, Slug, slug_in_path
from core_api.views.modules import calling_module
from nexarch.routing import json_response

_NO_STORE = {"Cache-Control": "no-store"}
_INT4_MAX = (1 << 31) - 1
# A module says which store it sees every 10 s.
_SILENT_AFTER_S = 30.0

SettingName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,62}$", examples=["STORAGE_DIR"])]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class DatabaseAnswer(BaseModel):
    """Where a tenant's data lives, and the role to reach it with."""

    tenant_id: UUID
    slug: str
    host: str
    port: int
    database: str
    user: str
    password: str


class KeyVersion(BaseModel):
    """Which version of the key: the active one unless given."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[int, Field(ge=1, le=_INT4_MAX)] | None = None


class KeyAnswer(BaseModel):
    """A tenant's key-encryption key: 32 bytes in base64, and its version."""

    tenant_kek_base64: str
    kek_version: int


class UsageDelta(Body):
    """A change of a tenant's usage in bytes, applied once however often its id is sent."""

    id: UUID
    tenant_slug: Slug
    metric: Annotated[str, Field(pattern=usage.METRIC, examples=["storage_bytes"])]
    delta: Annotated[int, Field(ge=-usage.MAX_DELTA, le=usage.MAX_DELTA)]


UsageDeltas = Annotated[list[UsageDelta], Field(max_length=usage.MAX_DELTAS)]


class StoreSeen(Body):
    """The object store that a module sees: the id that lies in it, and fingerprints of the settings that name it."""

    store_id: UUID | None
    settings: Annotated[dict[SettingName, Fingerprint], Field(max_length=16)]


class OtherStore(BaseModel):
    """What another module has said of the store that it sees."""

    module: str
    store_id: UUID | None
    settings: dict[str, str]


class OtherStores(BaseModel):
    """What the other running modules see."""

    items: list[OtherStore]


class Applied(BaseModel):
    """How many of the ids had not been applied before."""

    applied: int


async def database(request: web.Request) -> web.Response:
    """`GET /v1/tenants/{slug}/database`: the address of the tenant's database, and the role's password."""
    slug = slug_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        tenant_id = await admit(conn, calling_module(request), slug, Scope.DATABASE)
        login = await open_login(conn, request.app[MASTER_KEY], tenant_id)
    host, port = request.app[SETTINGS].tenant_database
    answer = DatabaseAnswer(
        tenant_id=tenant_id,
        slug=slug,
        host=host,
        port=port,
        database=login.database,
        user=login.user,
        password=login.password,
    )
    return json_response(answer, headers=_NO_STORE)


async def kek(request: web.Request, query: KeyVersion) -> web.Response:
    """`GET /v1/tenants/{slug}/kek`: the tenant's key, for one wrapping or unwrapping; do not keep it."""
    slug = slug_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        tenant_id = await admit(conn, calling_module(request), slug, Scope.KEK)
        key, version = await open_key(conn, request.app[MASTER_KEY], tenant_id, query.version)
    answer = KeyAnswer(tenant_kek_base64=base64.b64encode(key).decode(), kek_version=version)
    return json_response(answer, HTTPStatus.OK, _NO_STORE)


async def report_usage(request: web.Request, body: UsageDeltas) -> web.Response:
    """`POST /v1/usage`: changes of tenants' usage; all are applied, or none if one tenant is refused."""
    module_id = calling_module(request)
    async with request.app[REGISTRY].acquire() as conn:
        ids = {
            slug: await admit(conn, module_id, slug, Scope.USAGE)
            for slug in sorted({told.tenant_slug for told in body})
        }
        deltas = [
            Delta(id=told.id, tenant_id=ids[told.tenant_slug], metric=told.metric, delta=told.delta) for told in body
        ]
        applied = await usage.apply_deltas(conn, module_id, deltas)
    return json_response(Applied(applied=applied))


async def tell_store(request: web.Request, body: StoreSeen) -> web.Response:
    """`POST /v1/modules/self/store`: a module says which object store it sees, and is told what the others see."""
    module_id = calling_module(request)
    async with request.app[REGISTRY].acquire() as conn:
        await module_stores.tell_store(conn, module_id, body.store_id, body.settings)
        others = await module_stores.other_stores(conn, module_id, _SILENT_AFTER_S)
    items = [OtherStore(module=o.module_id, store_id=o.store_id, settings=o.settings) for o in others]
    return json_response(OtherStores(items=items))
