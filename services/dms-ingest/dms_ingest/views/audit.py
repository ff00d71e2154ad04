"""HTTP out of the audit trail, and what tells it where a request comes from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic import AwareDatetime, BaseModel, Field

from dms_ingest import audit_trail
from dms_ingest.audit_trail import AuditEvent, AuditFilter
from dms_ingest.keys import FRONT, SETTINGS
from nexarch.audit import Action, Client, current_client
from nexarch.client_address import client_address
from nexarch.pages import PageQuery, decode_id, page_of
from nexarch.problems import REQUEST_ID
from nexarch.routing import json_response
from nexarch.tenant_module import tenant_connection


class AuditQuery(PageQuery):
    """Which events to list: those that all of these fit."""

    document: Annotated[UUID | None, Field(description="A document's id, also of one that is gone")] = None
    user: Annotated[UUID | None, Field(description="A user's id")] = None
    action: Action | None = None
    since: Annotated[AwareDatetime | None, Field(description="With a zone; from this millisecond on")] = None
    until: Annotated[AwareDatetime | None, Field(description="With a zone; before this millisecond")] = None


class AuditAnswer(BaseModel):
    """One event."""

    id: UUID
    at: datetime
    action: Action
    user_id: Annotated[UUID | None, Field(description="null: the platform itself, or whoever followed a link")]
    user_email: str | None
    document_id: UUID | None
    revision_id: UUID | None
    link_key_id: Annotated[str | None, Field(description="Which key signed the link")]
    request_id: str | None
    address: Annotated[str | None, Field(description="Where the request came from")]
    details: dict[str, Any]


class AuditPage(BaseModel):
    """Events, newest first."""

    items: Sequence[AuditAnswer]
    next_cursor: str | None


async def list_events(request: web.Request, query: AuditQuery) -> web.Response:
    """`GET /v1/audit`: who did what to which document, newest first."""
    which = AuditFilter(
        document_id=query.document, user_id=query.user, action=query.action, since=query.since, until=query.until
    )
    before = decode_id(query.cursor)
    async with tenant_connection(request) as conn:
        rows = await audit_trail.list_events(conn, which, before=before, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda row: (str(row.id),))
    return json_response(AuditPage(items=[_answer(row) for row in page], next_cursor=cursor))


@web.middleware
async def remember_client(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let the events of this request say where it came from."""
    forwarded_for = request.headers.getall(hdrs.X_FORWARDED_FOR, [])
    trusted = (*await request.app[FRONT].networks(), *request.app[SETTINGS].trusted_proxies)
    address = client_address(request.remote, forwarded_for, trusted)
    current_client.set(Client(request.get(REQUEST_ID), address))
    return await handler(request)


def _answer(row: AuditEvent) -> AuditAnswer:
    return AuditAnswer(
        id=row.id,
        at=row.at,
        action=Action(row.action),
        user_id=row.user_id,
        user_email=row.user_email,
        document_id=row.document_id,
        revision_id=row.revision_id,
        link_key_id=row.link_key_id,
        request_id=row.request_id,
        address=None if row.address is None else str(row.address),
        details=row.details,
    )
