"""HTTP of a tenant's users."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal, Self
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, Field, SecretStr

from core_api import users
from core_api.keys import PASSWORDS, REGISTRY, TENANT_DATABASES
from core_api.tenants import get_active_tenant
from core_api.users import User
from core_api.views.bodies import Body, Name, slug_in_path
from nexarch.pages import PageQuery, decode_id, page_of
from nexarch.routing import id_in_path, json_response

_FIRST = UUID(int=0)


class NewUser(Body):
    """What an operator says of a new user; `display_name` is the address unless given."""

    email: Annotated[str, Field(max_length=254, pattern=r"^[^@\s]+@[^@\s]+$", examples=["ada@example.org"])]
    password: Annotated[SecretStr, Field(min_length=10, max_length=1000)]
    role: Literal["viewer", "editor", "admin"]
    display_name: Name | None = None


class UserAnswer(BaseModel):
    """One user."""

    id: UUID
    email: str
    display_name: str
    role: str
    created_at: datetime
    disabled_at: datetime | None

    @classmethod
    def of(cls, user: User) -> Self:
        """The row as JSON."""
        return cls.model_validate(user, from_attributes=True)


class UserPage(BaseModel):
    """A page of users in the order of their creation."""

    items: list[UserAnswer]
    next_cursor: str | None


async def create(request: web.Request, body: NewUser) -> web.Response:
    """`POST /v1/tenants/{slug}/users`: add a user."""
    slug = slug_in_path(request)
    await _check_tenant(request, slug)
    password_hash = await request.app[PASSWORDS].hash(body.password.get_secret_value())
    async with request.app[TENANT_DATABASES].acquire(slug) as conn:
        user = await users.create_user(
            conn,
            email=body.email,
            display_name=body.display_name or body.email,
            role=body.role,
            password_hash=password_hash,
        )
    return json_response(UserAnswer.of(user), HTTPStatus.CREATED)


async def list_(request: web.Request, query: PageQuery) -> web.Response:
    """`GET /v1/tenants/{slug}/users`: the tenant's users, in the order of their creation."""
    slug = slug_in_path(request)
    await _check_tenant(request, slug)
    after = decode_id(query.cursor) or _FIRST
    async with request.app[TENANT_DATABASES].acquire(slug) as conn:
        rows = await users.list_users(conn, after=after, limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda user: (str(user.id),))
    return json_response(UserPage(items=[UserAnswer.of(row) for row in page], next_cursor=cursor))


async def disable(request: web.Request) -> web.Response:
    """`POST /v1/tenants/{slug}/users/{id}/disable`: give this user no more tokens."""
    slug, user_id = slug_in_path(request), id_in_path(request)
    await _check_tenant(request, slug)
    async with request.app[TENANT_DATABASES].acquire(slug) as conn:
        user = await users.disable_user(conn, user_id)
    return json_response(UserAnswer.of(user))


async def _check_tenant(request: web.Request, slug: str) -> None:
    """Before anything is written, and not from what the pools remember."""
    async with request.app[REGISTRY].acquire() as conn:
        await get_active_tenant(conn, slug)
