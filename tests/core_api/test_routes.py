"""Rules that hold for every route."""

import re
from uuid import uuid4

import pytest

from core_api.routes import ROUTES
from nexarch.auth import OPEN, Access
from nexarch.pages import encode_cursor
from nexarch.routing import Route
from support.services import CoreApi

pytestmark = pytest.mark.database


def path_of(route: Route) -> str:
    """The route's path with something in place of its variables."""
    return re.sub(r"{\w*id}", str(uuid4()), route.path).replace("{slug}", "acme").replace("{key}", "dms")


async def test_a_route_that_is_not_public_is_401_without_credentials_and_with_wrong_ones(core_api: CoreApi) -> None:
    wrong = [
        {},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic bm9ib2R5OnNlY3JldA=="},
        {"Authorization": "Digest x"},
        {"X-Nexarch-Client-Id": "nobody"},
    ]
    for route in ROUTES:
        if route.access & (OPEN | Access.INTERNAL):
            continue
        for headers in wrong:
            status, problem = await core_api.call(route.method, path_of(route), headers=headers)
            assert status in {401, 429}, (route.method, route.path, headers)
            assert problem["type"] in {"/problems/unauthorized", "/problems/too-many-requests"}


def test_open_routes_are_these() -> None:
    opened = {f"{route.method} {route.path}" for route in ROUTES if route.access & (OPEN | Access.INTERNAL)}

    assert opened == {"POST /v1/auth/token", "GET /.well-known/jwks.json"}


async def test_a_public_route_does_not_look_at_credentials(core_api: CoreApi) -> None:
    for path in ("/livez", "/.well-known/jwks.json"):
        status, _ = await core_api.call("GET", path, headers={"Authorization": "Bearer nonsense"})
        assert status == 200


async def test_a_bootstrapped_core_api_is_ready(core_api: CoreApi) -> None:
    status, answer = await core_api.call("GET", "/readyz", headers={})

    assert (status, answer["failed"]) == (200, {})


async def test_a_body_with_a_field_that_nobody_knows_is_refused(core_api: CoreApi) -> None:
    status, problem = await core_api.call("POST", "/v1/tenants", json={"slug": "acme", "name": "A", "plan": "gold"})

    assert (status, problem["errors"][0]["pointer"]) == (422, "/plan")


async def test_a_cursor_with_half_of_a_character_is_refused(core_api: CoreApi) -> None:
    for path, cursor in [("tenants", encode_cursor("\ud800")), ("usage", encode_cursor("\ud800", "x"))]:
        status, problem = await core_api.call("GET", f"/v1/{path}?cursor={cursor}")

        assert (status, problem["type"]) == (422, "/problems/text-not-storable")
