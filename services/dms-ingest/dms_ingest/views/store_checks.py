"""HTTP in and out of checks of the object store, for the tenant's admins and for operators."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal
from uuid import UUID

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from dms_ingest import store_checks
from nexarch.operators import TenantQuery, tenant_of
from nexarch.pages import PageQuery, decode_id, page_of
from nexarch.routing import id_in_path, json_response
from nexarch.store_checks import Finding, Scope, StoreCheck, get_check
from nexarch.tenant_module import DOORBELL, TENANTS

log = structlog.get_logger(__name__)


class NewCheck(BaseModel):
    """What is to be checked: every key always; the bytes of a sample, or of all."""

    model_config = ConfigDict(extra="forbid")

    scope: Scope = Scope.SAMPLE


class CheckQuery(PageQuery, TenantQuery):
    """A page of checks."""


class CheckAnswer(BaseModel):
    """One check, finished or under way."""

    id: UUID
    scope: Scope
    phase: Literal["objects", "contents", "finished"]
    created_at: datetime
    finished_at: datetime | None
    objects: Annotated[int, Field(description="In the store")]
    contents: Annotated[int, Field(description="Objects that were to be read and compared with their SHA-256 so far")]
    bytes: Annotated[int, Field(description="Read of these, as they were uploaded")]
    orphans_removed: Annotated[int, Field(description="Objects that nothing referred to")]
    orphans_young: Annotated[int, Field(description="The same, too young to be removed: an upload may be under way")]
    leftovers: Annotated[int, Field(description="Of uploads to the store that never ended; removed")]
    missing: Annotated[int, Field(description="Objects of documents that are not in the store")]
    damaged: Annotated[int, Field(description="Objects that have another size or other bytes than the file")]
    unreadable_keys: Annotated[int, Field(description="Objects that were not read, since their keys do not open")]


class FindingAnswer(BaseModel):
    """What is wrong with one object, and which documents it belongs to."""

    storage_key: str
    kind: Finding
    found_at: datetime
    document_ids: list[UUID]


class CheckDetails(CheckAnswer):
    """A check with what it has found, at most a thousand findings."""

    findings: Sequence[FindingAnswer]


class CheckPage(BaseModel):
    """Checks, newest first."""

    items: Sequence[CheckAnswer]
    next_cursor: str | None


async def create(request: web.Request, query: TenantQuery, body: NewCheck) -> web.Response:
    """`POST /v1/store-checks`: check the tenant's object store; an unfinished check of this scope goes on instead."""
    tenant = tenant_of(request, query)
    await request.app[DOORBELL].arm(tenant)
    async with request.app[TENANTS].acquire(tenant) as conn, conn.transaction():
        check = await store_checks.order_check(conn, body.scope)
    request.app[DOORBELL].ring(tenant)
    log.info("check of the object store ordered", tenant=tenant, scope=body.scope, check=str(check.id))
    return json_response(_answer(check), HTTPStatus.ACCEPTED, {"Location": f"/v1/store-checks/{check.id}"})


async def list_checks(request: web.Request, query: CheckQuery) -> web.Response:
    """`GET /v1/store-checks`: checks of the tenant's object store, newest first."""
    before = decode_id(query.cursor)
    async with request.app[TENANTS].acquire(tenant_of(request, query)) as conn:
        rows = await store_checks.list_checks(conn, before=before, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda row: (str(row.id),))
    return json_response(CheckPage(items=[_answer(row) for row in page], next_cursor=cursor))


async def get(request: web.Request, query: TenantQuery) -> web.Response:
    """`GET /v1/store-checks/{id}`: one check with what it has found."""
    async with request.app[TENANTS].acquire(tenant_of(request, query)) as conn:
        check = await get_check(conn, id_in_path(request))
        rows = await store_checks.list_findings(conn, check.id)
    findings = [FindingAnswer.model_validate(row, from_attributes=True) for row in rows]
    return json_response(CheckDetails(**_answer(check).model_dump(), findings=findings))


def _answer(check: StoreCheck) -> CheckAnswer:
    return CheckAnswer.model_validate(check, from_attributes=True)
