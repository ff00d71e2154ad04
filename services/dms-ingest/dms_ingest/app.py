"""Puts dms-ingest together."""

from importlib.metadata import version

from aiohttp import web

from dms_ingest import resources
from dms_ingest.keys import SETTINGS, USER_TOKENS
from dms_ingest.routes import ROUTES
from dms_ingest.settings import Settings
from nexarch import module
from nexarch.auth import Principal, bearer_token
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(
    name="dms-ingest",
    version=version("dms-ingest"),
    description="Resumable uploads, encrypted storage, documents, search, downloads.",
)


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, authenticate, ROUTES)
    app[SETTINGS] = settings
    app.cleanup_ctx.extend(
        [
            module.core_client(settings, "dms-ingest"),
            resources.user_tokens,
            resources.tenants,
            resources.bus,
            resources.storage,
            resources.staging,
            resources.usage,
            resources.uploads,
        ]
    )
    return app


async def authenticate(request: web.Request) -> Principal | None:
    """A person by their bearer token; None without one."""
    token = bearer_token(request)
    return None if token is None else await request.app[USER_TOKENS].verify(token)
