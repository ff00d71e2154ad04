"""Puts dms-worker together."""

from importlib.metadata import version

from aiohttp import web

from dms_worker import resources
from dms_worker.keys import SETTINGS
from dms_worker.pools import worker_pools
from dms_worker.routes import ROUTES
from dms_worker.settings import Settings
from nexarch import module, operators, tenant_module
from nexarch.auth import FailureLimiter
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(name="dms-worker", version=version("dms-worker"), description="Runs the jobs of all tenants.")


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, operators.authenticate, ROUTES, internal=settings.internal_port is not None)
    app[SETTINGS] = settings
    app[operators.OPERATOR_FAILURES] = FailureLimiter()
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
