"""Puts dms-worker together."""

from importlib.metadata import version

from aiohttp import web

from dms_worker import resources
from dms_worker.keys import SETTINGS
from dms_worker.routes import ROUTES
from dms_worker.settings import Settings
from nexarch import module, tenant_module
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(name="dms-worker", version=version("dms-worker"), description="Runs the jobs of all tenants.")


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, tenant_module.authenticate, ROUTES)
    app[SETTINGS] = settings
    app.cleanup_ctx.extend(
        [
            module.core_client(settings, "dms-worker"),
            tenant_module.user_tokens,
            tenant_module.tenants(settings, "dms-worker"),
            tenant_module.doorbell(settings, "dms-worker"),
            resources.storage,
            resources.worker,
        ]
    )
    return app
