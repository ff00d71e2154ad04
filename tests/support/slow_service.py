"""A service on the real frame for tests of draining: `/v1/slow` takes a second; `/v1/die` kills a background task."""

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import web
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nexarch.auth import Access, Principal
from nexarch.http import ServiceInfo, create_base_app
from nexarch.routing import Route
from nexarch.serve import background, serve
from nexarch.settings import ServiceSettings, load

DIE: web.AppKey[asyncio.Event] = web.AppKey("die", asyncio.Event)


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="SLOW_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=0, ge=0, le=65535)


async def nobody(request: web.Request) -> Principal | None:
    return None


async def slow(request: web.Request) -> web.Response:
    await asyncio.sleep(1.0)
    return web.Response(text="done")


async def die(request: web.Request) -> web.Response:
    request.app[DIE].set()
    return web.Response()


async def mortal_task(app: web.Application) -> AsyncIterator[None]:
    app[DIE] = asyncio.Event()

    async def wait_and_die() -> None:
        await app[DIE].wait()
        raise RuntimeError("died")

    async with background(app, "mortal", wait_and_die()):
        yield


def create_app(settings: Settings) -> web.Application:
    routes = [Route("GET", "/v1/slow", slow, Access.PUBLIC), Route("POST", "/v1/die", die, Access.PUBLIC)]
    app = create_base_app(
        ServiceInfo("slow", "1", "For tests."), nobody, routes, internal=settings.internal_port is not None
    )
    app.cleanup_ctx.append(mortal_task)
    return app


if __name__ == "__main__":
    loaded = load(Settings)
    sys.exit(serve("slow", loaded, lambda: create_app(loaded)))
