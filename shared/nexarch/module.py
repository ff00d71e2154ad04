"""What every module of the platform has beside its own work: core-api to talk to, and a place in its registry."""

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version

import structlog
from aiohttp import web
from pydantic import Field, SecretStr

from nexarch.core_client import CoreClient, open_core_client
from nexarch.errors import NexarchError
from nexarch.http import CHECKS
from nexarch.serve import background
from nexarch.settings import ServiceSettings

log = structlog.get_logger(__name__)

CORE: web.AppKey[CoreClient] = web.AppKey("core", CoreClient)

_AGAIN_S = 300.0  # the registry shows when a module was last heard of
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 30.0


class ModuleSettings(ServiceSettings):
    """The settings of a service that is not core-api itself."""

    core_api_url: str = Field(pattern=r"^https?://[^/]+/?$")
    client_id: str
    client_secret: SecretStr
    # Where core-api and others reach this module; told to core-api at start.
    base_url: str = Field(pattern=r"^https?://[^/]+/?$")


def core_client(settings: ModuleSettings, distribution: str) -> Callable[[web.Application], AsyncIterator[None]]:
    """A cleanup context: the client of core-api under `app[CORE]`, its readiness check, and the announcing loop."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        async with open_core_client(settings.core_api_url, settings.client_id, settings.client_secret) as core:
            app[CORE] = core
            app[CHECKS]["core-api"] = core.ping
            async with background(app, "announce", _announce(core, version(distribution), settings.base_url)):
                yield

    return context


async def _announce(core: CoreClient, release: str, base_url: str) -> None:
    """Announce until core-api has heard it, then now and again; it may start later than we do."""
    retry_s = _FIRST_RETRY_S
    while True:
        try:
            await core.announce(release, base_url)
        except NexarchError as error:
            log.warning("core-api has not heard of us yet", reason=error.detail, retry_s=retry_s)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LONGEST_RETRY_S)
        else:
            log.debug("announced", base_url=base_url)
            retry_s = _FIRST_RETRY_S
            await asyncio.sleep(_AGAIN_S)
