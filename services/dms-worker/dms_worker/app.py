"""Puts dms-worker together."""

from importlib.metadata import version

from aiohttp import web

from dms_worker import resources
from dms_worker.keys import SETTINGS, USER_TOKENS
from dms_worker.routes import ROUTES
from dms_worker.settings import Settings
from nexarch import module
from nexarch.auth import Principal, bearer_token
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(name="dms-worker", version=version("dms-worker"), description="Runs the jobs of all tenants.")


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, authenticate, ROUTES)
    app[SETTINGS] = settings
    app.cleanup_ctx.extend(
        [
            module.core_client(settings, "dms-worker"),
            resources.user_tokens,
            resources.tenants,
            resources.doorbell,
            resources.storage,
            resources.worker,
        ]
    )
    return app


async def authenticate(request: web.Request) -> Principal | None:
    """A person by their bearer token; None without one."""
    token = bearer_token(request)
    return None if token is None else await request.app[USER_TOKENS].verify(token)
