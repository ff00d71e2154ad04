"""HTTP for modules that serve operators: whose token it is that they were sent."""

from typing import Annotated
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, Field

from core_api.keys import REGISTRY
from core_api.operators import NoSuchOperator, find_operator_by_digest
from core_api.views.bodies import Body
from nexarch.routing import json_response


class TokenDigest(Body):
    """The SHA-256 of an operator's token in hex: the token itself stays with the module that it was sent to."""

    token_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class OperatorAnswer(BaseModel):
    """Who runs the platform."""

    id: UUID
    name: str


async def identify(request: web.Request, body: TokenDigest) -> web.Response:
    """`POST /v1/operators/identify`: the operator whose token has this digest."""
    async with request.app[REGISTRY].acquire() as conn:
        operator = await find_operator_by_digest(conn, bytes.fromhex(body.token_sha256))
    if operator is None:
        raise NoSuchOperator("No operator has this token.")
    return json_response(OperatorAnswer(id=operator.id, name=operator.name))
