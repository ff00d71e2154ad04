"""HTTP in and out of signed links."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from aiohttp import hdrs, web
from pydantic import BaseModel, ConfigDict, Field

from dms_ingest.disposition import Disposition
from dms_ingest.documents import revoke_links
from dms_ingest.keys import SETTINGS
from dms_ingest.links import MAX_LIFE, Link, LinkKey, LinkRefused, link_url, read_link
from dms_ingest.revisions import sealed_revision
from dms_ingest.views.downloads import Download, send
from nexarch import audit
from nexarch.audit import Action
from nexarch.errors import Unauthorized
from nexarch.routing import id_in_path, json_response
from nexarch.tenant_module import TENANTS, caller, tenant_connection

# A link is a secret: no cache keeps what it gave out, and no page it leads to learns of it.
_HEADERS = {hdrs.CACHE_CONTROL: "private, no-store", "Referrer-Policy": "no-referrer"}


class NewLink(BaseModel):
    """A link to be."""

    model_config = ConfigDict(extra="forbid")

    expires_in: Annotated[int, Field(ge=1, le=int(MAX_LIFE.total_seconds()), description="Seconds")]
    revision: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="null: the one that is current now")] = None
    disposition: Disposition = "attachment"


class LinkAnswer(BaseModel):
    """A signed link, relative to where this service is reached. Who has it, has the file."""

    url: str
    document_id: UUID
    revision: int
    expires_at: datetime


async def create(request: web.Request, body: NewLink) -> web.Response:
    """`POST /v1/documents/{id}/links`: a URL that gives out one revision without a token until it expires."""
    document_id = id_in_path(request)
    key = link_keys(request.app)[0]
    async with tenant_connection(request) as conn:
        revision = await sealed_revision(conn, document_id, body.revision)
    now = datetime.now(UTC).replace(microsecond=0)
    link = Link(
        method=hdrs.METH_GET,
        tenant=caller(request).tenant,
        document_id=document_id,
        revision=revision.number,
        disposition=body.disposition,
        name=revision.document_name,
        epoch=revision.link_epoch,
        not_before=now,
        expires_at=now + timedelta(seconds=body.expires_in),
    )
    answer = LinkAnswer(
        url=link_url(link, key),
        document_id=document_id,
        revision=link.revision,
        expires_at=link.expires_at,
    )
    async with tenant_connection(request) as conn:
        await audit.record(
            conn,
            Action.LINK_MADE,
            user_id=caller(request).id,
            document_id=document_id,
            revision_id=revision.id,
            link_key_id=key.id,
            details={"expires_at": link.expires_at.isoformat(), "disposition": link.disposition},
        )
    return json_response(answer, HTTPStatus.CREATED, {hdrs.CACHE_CONTROL: "no-store"})


async def revoke(request: web.Request) -> web.Response:
    """`POST /v1/documents/{id}/links/revoke`: no link that was made before opens the document any more."""
    document_id = id_in_path(request)
    async with tenant_connection(request) as conn, conn.transaction():
        await revoke_links(conn, document_id)
        await audit.record(conn, Action.LINK_REVOKED, user_id=caller(request).id, document_id=document_id)
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def follow(request: web.Request) -> web.StreamResponse:
    """`GET /v1/links/{tenant}/{document}/{revision}`: the bytes that a signed link gives out.

    401 without a signature; 403 for a link that is not valid, whatever is wrong with it; 404 once the document is
    deleted.
    """
    if "sig" not in request.query:
        raise Unauthorized("A link without its signature opens nothing.")
    link = read_link(
        link_keys(request.app),
        method=request.method,
        tenant=request.match_info["tenant"],
        document=request.match_info["document"],
        revision=request.match_info["revision"],
        query=list(request.query.items()),
        now=datetime.now(UTC),
    )
    async with request.app[TENANTS].acquire(link.tenant) as conn:
        revision = await sealed_revision(conn, link.document_id, link.revision)
    if link.epoch != revision.link_epoch:
        raise LinkRefused
    download = Download(
        tenant=link.tenant,
        tenant_id=await request.app[TENANTS].tenant_id(link.tenant),
        document_id=link.document_id,
        revision=revision,
        name=link.name,
        disposition=link.disposition,
        headers=_HEADERS,
        link_key_id=request.query["k"],  # the signature holds it
    )
    return await send(request, download)


def link_keys(app: web.Application) -> Sequence[LinkKey]:
    """The keys that links are known by; the first one signs."""
    return [LinkKey.from_secret(secret) for secret in app[SETTINGS].link_key.get_secret_value().split()]
