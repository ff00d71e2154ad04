"""Puts dms-worker together."""

from importlib.metadata import version

from aiohttp import web

from dms_worker import resources
from dms_worker.keys import OPERATOR_FAILURES, SETTINGS
from dms_worker.pools import worker_pools
from dms_worker.routes import ROUTES
from dms_worker.settings import Settings
from nexarch import module, tenant_module
from nexarch.auth import FailureLimiter, Operator, Principal, bearer_token, is_operator_token
from nexarch.errors import Unauthorized
from nexarch.http import ServiceInfo, create_base_app
from nexarch.module import CORE

INFO = ServiceInfo(name="dms-worker", version=version("dms-worker"), description="Runs the jobs of all tenants.")


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, authenticate, ROUTES, internal=settings.internal_port is not None)
    app[SETTINGS] = settings
    app[OPERATOR_FAILURES] = FailureLimiter()
    app.cleanup_ctx.extend(
        [
            module.core_client(settings, "dms-worker"),
            tenant_module.user_tokens,
            tenant_module.tenants(settings, "dms-worker", worker_pools),
            tenant_module.doorbell(settings, "dms-worker"),
            resources.storage,
            resources.worker,
        ]
    )
    return app


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
