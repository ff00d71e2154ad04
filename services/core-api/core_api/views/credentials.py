"""HTTP of modules' credentials."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Self
from uuid import UUID

from aiohttp import web
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from core_api import credentials
from core_api.credentials import Credential
from core_api.keys import REGISTRY
from core_api.modules import get_module
from core_api.views.bodies import Body, module_in_path
from nexarch.routing import id_in_path, json_response

_DAY_S = 86_400


class NewCredential(Body):
    """When the new credential ends, and how long the others live on from now (both optional)."""

    not_after: AwareDatetime | None = None
    overlap_s: Annotated[int, Field(ge=0, le=90 * _DAY_S)] | None = None


class Revocation(BaseModel):
    """`force` revokes the last live credential too, which locks the module out."""

    model_config = ConfigDict(extra="forbid")

    force: bool = False


class CredentialAnswer(BaseModel):
    """One credential, without its secret."""

    id: UUID
    module_id: str
    client_id: str
    created_at: datetime
    not_after: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, credential: Credential) -> Self:
        """The row as JSON."""
        return cls.model_validate(credential, from_attributes=True)


class NewCredentialAnswer(CredentialAnswer):
    """A new credential with its secret, which is shown this once."""

    client_secret: str


class CredentialList(BaseModel):
    """All credentials of a module, newest first."""

    items: list[CredentialAnswer]
    next_cursor: None = None


async def create(request: web.Request, body: NewCredential) -> web.Response:
    """`POST /v1/modules/{id}/credentials`: make a credential; its secret is shown this once."""
    async with request.app[REGISTRY].acquire() as conn:
        credential, secret = await credentials.provision(
            conn, module_in_path(request), not_after=body.not_after, overlap_s=body.overlap_s
        )
    shown = CredentialAnswer.of(credential).model_dump()
    answer = NewCredentialAnswer(**shown, client_secret=secret)
    return json_response(answer, HTTPStatus.CREATED, {"Cache-Control": "no-store"})


async def list_(request: web.Request) -> web.Response:
    """`GET /v1/modules/{id}/credentials`: all credentials of a module, without their secrets."""
    module_id = module_in_path(request)
    async with request.app[REGISTRY].acquire() as conn:
        await get_module(conn, module_id)
        rows = await credentials.list_credentials(conn, module_id)
    return json_response(CredentialList(items=[CredentialAnswer.of(row) for row in rows]))


async def revoke(request: web.Request, query: Revocation) -> web.Response:
    """`POST /v1/modules/{id}/credentials/{credential_id}/revoke`: end a credential at once."""
    module_id, credential_id = module_in_path(request), id_in_path(request, "credential_id")
    async with request.app[REGISTRY].acquire() as conn:
        credential = await credentials.revoke(conn, module_id, credential_id, force=query.force)
    return json_response(CredentialAnswer.of(credential))
