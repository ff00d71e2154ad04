"""What someone without credentials gets from the published listeners: 401 or 404 everywhere, and nothing else."""

import asyncio
import io
import re
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

import core_api.app
import dms_ingest.app
from nexarch.http import INTERNAL
from support.ingest import Ingest
from support.services import CoreApi

pytestmark = pytest.mark.database

Client = TestClient[web.Request, web.Application]
NOBODYS_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ODD: list[dict[str, Any]] = [
    {},
    {"json": {}},
    {"data": b"x", "headers": {"Content-Type": "text/plain"}},
    {"headers": {"Expect": "the unexpected"}},
    {"headers": {"Expect": "the unexpected", "Authorization": "Basic"}},
    {"headers": {"X-HTTP-Method-Override": "BREW", "Tus-Resumable": "9", "Range": "bytes=9-1", "If-Match": "?"}},
    {
        "params": [
            ("limit", "no"),
            ("limit", "-1"),
            ("cursor", "\0"),
            ("q", "\ud800".encode("utf-8", "replace").decode()),
        ]
    },
]


def published_core_api(core: CoreApi) -> web.Application:
    return core_api.app.create_app(core.settings.model_copy(update={"internal_port": 0}))


def published_ingest(ingest: Ingest) -> web.Application:
    return dms_ingest.app.create_app(ingest.settings.model_copy(update={"internal_port": 0}))


def all_paths(app: web.Application) -> list[str]:
    """Every path that the router knows, with an id of nothing for each variable; the last is one that it does not."""
    paths = dict.fromkeys(re.sub(r"{\w+}", NOBODYS_ID, resource.canonical) for resource in app.router.resources())
    assert len(paths) > 10
    return list(paths)


@pytest.mark.parametrize("service", ["core-api", "dms-ingest"])
async def test_a_stranger_gets_401_or_404_on_every_path_whatever_is_sent(
    service: str, core_api: CoreApi, ingest: Ingest, aiohttp_client: AiohttpClient
) -> None:
    app = published_core_api(core_api) if service == "core-api" else published_ingest(ingest)
    client: Client = await aiohttp_client(app)

    for path in all_paths(app):
        for method in METHODS:
            for odd in ODD:
                async with client.request(method, path, **odd) as response:
                    assert response.status in {401, 404}, (method, path, [*odd.values()], await response.text())


@pytest.mark.parametrize("target", ["OPTIONS *", "CONNECT elsewhere.example.org:80", "CONNECT /v1/tenants"])
@pytest.mark.parametrize("service", ["core-api", "dms-ingest"])
async def test_a_stranger_gets_404_where_no_path_is_asked_for(
    service: str, target: str, core_api: CoreApi, ingest: Ingest, aiohttp_client: AiohttpClient
) -> None:
    app = published_core_api(core_api) if service == "core-api" else published_ingest(ingest)
    client: Client = await aiohttp_client(app)
    reader, writer = await asyncio.open_connection(client.host, client.port)

    writer.write(f"{target} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), timeout=30)
    writer.close()

    assert head.startswith(b"HTTP/1.1 404 "), head
    assert b"application/problem+json" in head


async def test_health_and_documents_of_a_published_service_need_any_credentials(
    core_api: CoreApi, aiohttp_client: AiohttpClient
) -> None:
    client: Client = await aiohttp_client(published_core_api(core_api))

    for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/docs", "/.well-known/jwks.json"):
        for headers in (core_api.operator, core_api.modules["dms_ingest"].headers):
            async with client.get(path, headers=headers) as response:
                assert response.status == 200, path


async def test_the_internal_application_tells_of_the_published_one(
    core_api: CoreApi, aiohttp_client: AiohttpClient
) -> None:
    app = published_core_api(core_api)
    published: Client = await aiohttp_client(app)
    internal: Client = await aiohttp_client(app[INTERNAL])

    await published.get("/v1/tenants")
    metrics = await (await internal.get("/metrics")).text()
    ready = await (await internal.get("/readyz")).json()
    elsewhere = await internal.get("/v1/tenants")

    assert 'nexarch_http_requests_total{method="GET",route="/v1/tenants",status="401"} 1.0' in metrics
    assert ready == {"status": "ok", "failed": {}}
    assert elsewhere.status == 404


async def test_a_browser_may_ask_for_a_page_of_an_allowed_origin(ingest: Ingest, aiohttp_client: AiohttpClient) -> None:
    changes = {"internal_port": 0, "cors_origins": frozenset({"https://app.example.org"})}
    client: Client = await aiohttp_client(dms_ingest.app.create_app(ingest.settings.model_copy(update=changes)))

    for origin, status in (("https://app.example.org", 204), ("https://elsewhere.example.org", 401)):
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        async with client.options("/files/", headers=headers) as response:
            assert response.status == status, origin


async def test_a_sign_in_that_cannot_be_read_says_what_is_missing(core_api: CoreApi) -> None:
    status, problem = await core_api.call("POST", "/v1/auth/token", headers={}, json={"tenant": "acme"})

    assert (status, problem["type"]) == (401, "/problems/unauthorized")
    assert {error["pointer"] for error in problem["errors"]} == {"/email", "/password"}


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"[" * (2 << 20), "identity"),
        (b"not gzip", "gzip"),
        (b'{"tenant": "acme", "email": "\\u0000@example.org", "password": "\\u0000"}', "identity"),
        (b'{"tenant": "acme", "email": "\\ud800@example.org", "password": "\\ud800"}', "identity"),
        (b'{"tenant": "nobodys", "email": "ada@example.org", "password": "x"}', "identity"),
    ],
)
async def test_a_sign_in_that_cannot_be_read_is_none(core_api: CoreApi, body: bytes, encoding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    url = f"{core_api.url}/v1/auth/token"
    async with ClientSession() as session, session.post(url, data=io.BytesIO(body), headers=headers) as response:
        assert response.status == 401, await response.text()
