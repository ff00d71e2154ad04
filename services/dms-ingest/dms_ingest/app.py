"""Puts dms-ingest together."""

from importlib.metadata import version

from aiohttp import web

from dms_ingest import resources
from dms_ingest.front import Front
from dms_ingest.keys import FRONT, SETTINGS
from dms_ingest.routes import ROUTES
from dms_ingest.settings import Settings
from dms_ingest.views import cors, tus
from dms_ingest.views.audit import remember_client
from nexarch import module, operators, tenant_module
from nexarch.auth import FailureLimiter
from nexarch.http import ServiceInfo, create_base_app

INFO = ServiceInfo(
    name="dms-ingest",
    version=version("dms-ingest"),
    description="Resumable uploads, encrypted storage, documents, search, downloads.",
)


def create_app(settings: Settings) -> web.Application:
    """Make the application; opens nothing."""
    app = create_base_app(INFO, operators.authenticate, ROUTES, internal=settings.internal_port is not None)
    app[SETTINGS] = settings
    app[FRONT] = Front(settings.front)
    app[operators.OPERATOR_FAILURES] = FailureLimiter()
    app.on_response_prepare.extend([tus.add_headers, cors.add_headers])
    app.middlewares.extend([cors.answer_preflight, remember_client])
    app.cleanup_ctx.extend(
        [
            module.core_client(settings, "dms-ingest"),
            tenant_module.user_tokens,
            tenant_module.tenants(settings, "dms-ingest"),
            tenant_module.doorbell(settings, "dms-ingest"),
            resources.storage,
            resources.staging,
            resources.transfers,
            resources.usage,
            resources.uploads,
            resources.listener,  # last: what it hears concerns the others
        ]
    )
    return app
