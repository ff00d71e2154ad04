"""What a module that serves the tenants has beside core-api: their databases, their people's tokens, the event bus."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, cast

from aiohttp import web
from pydantic import Field, SecretStr

from nexarch import channels
from nexarch.auth import PRINCIPAL, Principal, User, bearer_token
from nexarch.bell_metrics import count_rings
from nexarch.core_client import DatabaseAddress
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from nexarch.errors import Unavailable
from nexarch.http import CHECKS, METRICS
from nexarch.listen import Listener, Wake
from nexarch.module import CORE, ModuleSettings
from nexarch.same_store import SameStore
from nexarch.serve import background
from nexarch.storage import Storage, StorageSettings, open_storage
from nexarch.tenancy import TenantPools
from nexarch.user_tokens import UserTokens

TENANTS: web.AppKey[TenantPools] = web.AppKey("tenants", TenantPools)
USER_TOKENS: web.AppKey[UserTokens] = web.AppKey("user_tokens", UserTokens)
DOORBELL: web.AppKey[Doorbell] = web.AppKey("doorbell", Doorbell)

Context = Callable[[web.Application], AsyncIterator[None]]


class TenantModuleSettings(ModuleSettings, StorageSettings):
    """The settings of such a module."""

    bus_dsn: SecretStr  # the registry database, as the role that may only LISTEN, NOTIFY and arm a tenant
    tenant_pool_size: int = Field(default=8, ge=1)  # connections to each tenant's database


async def user_tokens(app: web.Application) -> AsyncIterator[None]:
    """A cleanup context: `app[USER_TOKENS]`, the keys that people's tokens are verified with."""
    app[USER_TOKENS] = UserTokens(app[CORE].jwks)
    yield


class OpenPools(Protocol):
    """How a module opens its pools: `TenantPools`, or a function that gives it more to go by."""

    def __call__(
        self, resolve: Callable[[str], Awaitable[DatabaseAddress]], *, application_name: str, max_size: int
    ) -> TenantPools: ...


def tenants(settings: TenantModuleSettings, application_name: str, open_pools: OpenPools = TenantPools) -> Context:
    """A cleanup context: `app[TENANTS]`, the tenants' databases, found through core-api."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        pools = open_pools(app[CORE].database, application_name=application_name, max_size=settings.tenant_pool_size)
        app[TENANTS] = pools
        yield
        await pools.close()

    return context


@asynccontextmanager
async def open_common_storage(
    app: web.Application, settings: TenantModuleSettings, *, writes: bool
) -> AsyncIterator[Storage]:
    """The object store, held against what the other modules see of it: see `nexarch.same_store`."""
    async with open_storage(settings) as store:
        watch = SameStore(store, app[CORE], settings.fingerprints(), writes=writes)
        app[CHECKS]["storage"] = watch.check
        async with background(app, "same store", watch.run()):
            yield store


def doorbell(settings: TenantModuleSettings, application_name: str) -> Context:
    """A cleanup context: `app[DOORBELL]`, the connection that tells workers of new jobs."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        bell = Doorbell(settings.bus_dsn.get_secret_value(), application_name=application_name)
        count_rings(app[METRICS], bell)
        async with bell:
            app[DOORBELL] = bell
            yield

    return context


def cache_wakes(app: web.Application) -> Mapping[str, Wake]:
    """What makes the caches of `app[TENANTS]` and `app[USER_TOKENS]` wrong, for a `Listener`."""
    return {
        channels.TENANTS: app[TENANTS].forget,
        channels.FLAGS: lambda _flag: app[TENANTS].forget(),  # a flag decides whether we are active for a tenant
        channels.KEYS: lambda _key: app[USER_TOKENS].forget(),
    }


def check_bus(app: web.Application, listener: Listener) -> None:
    """Without the event bus the module is not ready: its caches would be wrong for up to their time to live."""

    async def connected() -> None:
        if not listener.connected:
            raise Unavailable("The event bus is not connected.")

    app[CHECKS]["bus"] = connected


async def authenticate(request: web.Request) -> Principal | None:
    """A person by their bearer token; None without one."""
    token = bearer_token(request)
    return None if token is None else await request.app[USER_TOKENS].verify(token)


def caller(request: web.Request) -> User:
    """The person who calls, on a route that is neither public nor for operators too."""
    return cast("User", request[PRINCIPAL])


def tenant_connection(request: web.Request) -> AbstractAsyncContextManager[Connection]:
    """A connection to the database of the caller's tenant, which comes from the token, never from the request."""
    return request.app[TENANTS].acquire(caller(request).tenant)
