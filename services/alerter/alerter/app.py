"""Puts the alerter together."""

from importlib.metadata import version

from aiohttp import web

from alerter.routes import ROUTES
from alerter.settings import Settings
from nexarch import module
from nexarch.auth import Principal
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(
    name="alerter",
    version=version("alerter"),
    description="Threshold rules on the aggregated metrics, notifications with retries.",
)


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, authenticate, ROUTES, internal=settings.internal_port is not None)
    app.cleanup_ctx.append(module.core_client(settings, "alerter"))
    return app


async def authenticate(request: web.Request) -> Principal | None:
    """Nobody yet: every route of the frame is public."""
    return None
