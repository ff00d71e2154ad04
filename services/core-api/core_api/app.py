"""Puts core-api together."""

from collections.abc import AsyncIterator
from importlib.metadata import version
from urllib.parse import unquote, urlsplit

from aiohttp import web
from pydantic import SecretStr

from core_api.keys import (
    CREDENTIAL_FAILURES,
    MASTER_KEY,
    PASSWORDS,
    PROVISIONER,
    REGISTRY,
    SETTINGS,
    SIGN_IN_FAILURES,
    TENANT_DATABASES,
    TOKEN_ISSUER,
)
from core_api.master_key import MasterKey
from core_api.passwords import Passwords
from core_api.provisioning import Provisioner
from core_api.routes import ROUTES
from core_api.server_watch import watch_server
from core_api.settings import Settings
from core_api.sign_in import TokenIssuer
from core_api.signing_keys import active_key
from core_api.tenants import TenantUnfinished, get_tenant
from core_api.views.authentication import authenticate
from nexarch.auth import FailureLimiter
from nexarch.core_client import DatabaseAddress
from nexarch.db import open_pool
from nexarch.http import CHECKS, METRICS, ServiceInfo, create_base_app
from nexarch.serve import background
from nexarch.tenancy import TenantPools

INFO = ServiceInfo(
    name="core-api",
    version=version("core-api"),
    description="The control plane: tenants, users, modules, flags, keys and usage.",
)

# A client that asks again finishes its tenant itself; the sweep is for those that nobody asks for again.
_SWEEP_S = 60.0
_LEFT_FOR_S = 300.0
_WATCH_S = 15.0


def create_app(settings: Settings, passwords: Passwords | None = None) -> web.Application:
    """Make the application; opens nothing. Without `passwords` they cost what `core_api.passwords` says."""
    app = create_base_app(INFO, authenticate, ROUTES, internal=settings.internal_port is not None)
    app[SETTINGS] = settings
    app[MASTER_KEY] = MasterKey(settings.master_key)
    app[PROVISIONER] = Provisioner(settings.registry_dsn.get_secret_value(), app[MASTER_KEY])
    app[PASSWORDS] = passwords or Passwords()
    app[TOKEN_ISSUER] = TokenIssuer(settings.token_issuer, settings.token_audience, settings.token_ttl_s)
    app[CREDENTIAL_FAILURES] = FailureLimiter()
    app[SIGN_IN_FAILURES] = FailureLimiter()
    app.cleanup_ctx.extend([registry_pool, tenant_databases, provisioning_sweep, server_watch])
    return app


async def registry_pool(app: web.Application) -> AsyncIterator[None]:
    """The pool on the registry database; without it core-api is not ready."""
    dsn = app[SETTINGS].registry_dsn.get_secret_value()
    async with open_pool(dsn, max_size=10, application_name="core-api") as pool:

        async def usable() -> None:
            """Reachable, bootstrapped, and sealed under the master key that we have."""
            async with pool.acquire() as conn:
                await active_key(conn, app[MASTER_KEY])

        app[REGISTRY] = pool
        app[CHECKS]["registry"] = usable
        yield


async def tenant_databases(app: web.Application) -> AsyncIterator[None]:
    """Pools on the tenant databases as their owner, who alone may write users."""
    parts = urlsplit(app[SETTINGS].registry_dsn.get_secret_value())

    async def resolve(slug: str) -> DatabaseAddress:
        async with app[REGISTRY].acquire() as conn:
            tenant = await get_tenant(conn, slug)
        if tenant.status == "provisioning":
            raise TenantUnfinished(slug)
        return DatabaseAddress(
            tenant_id=tenant.id,
            slug=slug,
            host=parts.hostname or "",
            port=parts.port or 5432,
            database=f"tenant_{slug}",
            user=unquote(parts.username or ""),
            password=SecretStr(unquote(parts.password or "")),
        )

    pools = TenantPools(resolve, application_name="core-api", max_pools=20, max_size=4)
    app[TENANT_DATABASES] = pools
    yield
    await pools.close()


async def provisioning_sweep(app: web.Application) -> AsyncIterator[None]:
    """Finishes tenants whose maker died."""
    async with background(app, "provisioning-sweep", app[PROVISIONER].sweep(_SWEEP_S, _LEFT_FOR_S)):
        yield


async def server_watch(app: web.Application) -> AsyncIterator[None]:
    """Measures what slows down the services on the database server."""
    async with background(app, "server-watch", watch_server(app[REGISTRY], app[METRICS], _WATCH_S)):
        yield
