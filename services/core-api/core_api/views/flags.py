"""HTTP of feature flags."""

import re
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Self

from aiohttp import web
from pydantic import BaseModel, Field

from core_api import flags
from core_api.flags import Flag, NoSuchFlag
from core_api.keys import REGISTRY
from core_api.tenants import get_tenant
from core_api.views.bodies import Body, FlagKey, Slug, slug_in_path
from nexarch.pages import PageQuery, decode_cursor, page_of
from nexarch.routing import json_response


class FlagBody(Body):
    """For whom a flag is on: for all, or for the tenants named."""

    enabled_for_all: bool
    tenants: Annotated[list[Slug], Field(max_length=10_000, default_factory=list)]
    description: Annotated[str, Field(max_length=1000)] = ""


class FlagAnswer(BaseModel):
    """One flag."""

    key: FlagKey
    enabled_for_all: bool
    tenants: list[str]
    description: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, flag: Flag) -> Self:
        """The row as JSON."""
        return cls.model_validate(flag, from_attributes=True)


class FlagPage(BaseModel):
    """A page of flags by key."""

    items: list[FlagAnswer]
    next_cursor: str | None


class FlagValue(BaseModel):
    """Whether a flag is on for one tenant."""

    key: str
    enabled: bool


async def put(request: web.Request, body: FlagBody) -> web.Response:
    """`PUT /v1/flags/{key}`: make a flag, or replace all of it."""
    key = _key(request)
    async with request.app[REGISTRY].acquire() as conn:
        flag = await flags.set_flag(
            conn, key, enabled_for_all=body.enabled_for_all, description=body.description, tenants=body.tenants
        )
    return json_response(FlagAnswer.of(flag))


async def get(request: web.Request) -> web.Response:
    """`GET /v1/flags/{key}`: one flag."""
    async with request.app[REGISTRY].acquire() as conn:
        flag = await flags.get_flag(conn, _key(request))
    return json_response(FlagAnswer.of(flag))


async def list_(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/flags`: all flags, by key."""
    (after,) = decode_cursor(query.cursor, 1) or ("",)
    async with request.app[REGISTRY].acquire() as conn:
        rows = await flags.list_flags(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda flag: (flag.key,))
    return json_response(FlagPage(items=[FlagAnswer.of(row) for row in page], next_cursor=cursor))


async def delete(request: web.Request) -> web.Response:
    """`DELETE /v1/flags/{key}`: remove a flag, so that it is off for all."""
    async with request.app[REGISTRY].acquire() as conn:
        await flags.delete_flag(conn, _key(request))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def of_tenant(request: web.Request) -> web.Response:
    """`GET /v1/tenants/{slug}/flags/{key}`: whether a flag is on for a tenant; an unknown flag is off."""
    slug, key = slug_in_path(request), request.match_info["key"]
    async with request.app[REGISTRY].acquire() as conn:
        await get_tenant(conn, slug)
        enabled = await flags.is_on(conn, key, slug)
    return json_response(FlagValue(key=key, enabled=enabled))


def _key(request: web.Request) -> str:
    key = request.match_info["key"]
    if re.fullmatch(flags.KEY, key) is None:
        raise NoSuchFlag("A flag's key has 1 to 128 of the characters A-Z a-z 0-9 . _ -")
    return key
