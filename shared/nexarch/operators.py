"""Operators at the services of tenants: who they are, and whose tenant they mean.

A person's tenant is in their token; an operator has none and names one with the query parameter `tenant`.
"""

from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from nexarch import tenant_module
from nexarch.auth import PRINCIPAL, FailureLimiter, Operator, Principal, User, bearer_token, is_operator_token
from nexarch.errors import Invalid, NotFound, Unauthorized
from nexarch.module import CORE

OPERATOR_FAILURES: web.AppKey[FailureLimiter] = web.AppKey("operator_failures", FailureLimiter)


class TenantRequired(Invalid):
    """An operator says with `tenant` whose things are meant."""

    code = "tenant-required"
    title = "Which tenant is meant?"


class TenantQuery(BaseModel):
    """Which tenant, asked by an operator; a user's is always their own."""

    model_config = ConfigDict(extra="forbid")

    tenant: Annotated[str, Field(pattern="^[a-z][a-z0-9_]{1,48}$")] | None = None


async def authenticate(request: web.Request) -> Principal | None:
    """A person of a tenant, or an operator, by their bearer token; None without one."""
    token = bearer_token(request)
    if token is None or not is_operator_token(token):
        return await tenant_module.authenticate(request)
    operator = await request.app[CORE].operator(token)
    if operator is None:
        request.app[OPERATOR_FAILURES].failed(request.remote or "unknown", "operator")
        raise Unauthorized("This token is not known.")
    return Operator(id=operator.id, name=operator.name)


def tenant_of(request: web.Request, query: TenantQuery) -> str:
    """The tenant that is meant; a user's is in their token, so that no request reaches another's."""
    principal = request[PRINCIPAL]
    if isinstance(principal, User):
        if query.tenant not in {None, principal.tenant}:
            raise NotFound("There is no such tenant.")
        return principal.tenant
    if query.tenant is None:
        raise TenantRequired("Say with the query parameter `tenant` which tenant is meant.")
    return query.tenant
