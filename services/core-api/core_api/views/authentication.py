"""Who sends a request: an operator by bearer token, or a module by its credential."""

from aiohttp import hdrs, web

from core_api.credentials import find_service
from core_api.keys import CREDENTIAL_FAILURES, REGISTRY, SETTINGS
from core_api.operators import find_operator
from nexarch.auth import Operator, Principal, Service, bearer_token, service_credentials
from nexarch.client_address import client_address
from nexarch.errors import Unauthorized

_WRONG = "These credentials are not known."


async def authenticate(request: web.Request) -> Principal | None:
    """The sender, None without credentials; `Unauthorized` for wrong ones, `TooManyRequests` for too many of them."""
    if (token := bearer_token(request)) is not None:
        return await _operator(request, token)
    if (credentials := service_credentials(request)) is not None:
        return await _service(request, *credentials)
    return None


def address(request: web.Request) -> str:
    """Whom the request comes from: the peer, or whom the trusted proxies in front of us name."""
    forwarded_for = request.headers.getall(hdrs.X_FORWARDED_FOR, [])
    return client_address(request.remote, forwarded_for, request.app[SETTINGS].trusted_proxies) or "unknown"


async def _operator(request: web.Request, token: str) -> Operator:
    async with request.app[REGISTRY].acquire() as conn:
        operator = await find_operator(conn, token)
    if operator is None:
        request.app[CREDENTIAL_FAILURES].failed(address(request), "operator")
        raise Unauthorized(_WRONG)
    return operator


async def _service(request: web.Request, client_id: str, secret: str) -> Service:
    async with request.app[REGISTRY].acquire() as conn:
        service = await find_service(conn, client_id, secret)
    if service is None:
        request.app[CREDENTIAL_FAILURES].failed(address(request), client_id)
        raise Unauthorized(_WRONG)
    return service
