import asyncio
import gzip
import io
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated
from uuid import UUID, uuid4

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient
from openapi_spec_validator import validate
from pydantic import BaseModel, ConfigDict, Field
from pytest_aiohttp import AiohttpClient

from nexarch import routing
from nexarch.auth import PRINCIPAL, Access, Principal, User, bearer_token
from nexarch.errors import Conflict, NotReady, Unauthorized
from nexarch.http import CHECKS, DRAINING, ServiceInfo, create_base_app
from nexarch.pages import PageQuery
from nexarch.routing import UNMATCHED, Route, id_in_path, json_response
from support.waiting import eventually

Client = TestClient[web.Request, web.Application]


class NewThing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=20)
    size: int = Field(default=0, ge=0)


class Thing(BaseModel):
    id: UUID
    name: str


class NameTaken(Conflict):
    code = "name-taken"


async def create(request: web.Request, body: NewThing) -> web.Response:
    """`POST /v1/things`: add a thing.

    A name is used once.
    """
    if body.name == "taken":
        raise NameTaken("The name is in use.", name=body.name)
    return json_response(Thing(id=uuid4(), name=body.name), status=HTTPStatus.CREATED)


async def list_things(request: web.Request, query: PageQuery) -> web.Response:
    """List things."""
    return web.json_response({"limit": query.limit, "who": str(request[PRINCIPAL])})


async def broken(request: web.Request) -> web.Response:
    """Fail in a way that nobody expected."""
    raise RuntimeError("the password is hunter2")


async def show(request: web.Request) -> web.Response:
    """Show a thing."""
    return json_response(Thing(id=id_in_path(request), name="x"))


Names = Annotated[list[str], Field(max_length=2)]


async def count(request: web.Request, body: Names) -> web.Response:
    """Count names."""
    return web.json_response(len(body))


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """Fail in the middle of an answer, in the way that the path says."""
    response = web.StreamResponse()
    response.content_length = 100
    await response.prepare(request)
    await response.write(b"half of it")
    raise NameTaken("Too late.") if request.match_info["how"] == "known" else RuntimeError("Too late.")


ROUTES = [
    Route("POST", "/v1/things", create, Access.EDITOR, answer=Thing, status=HTTPStatus.CREATED, errors=[NameTaken]),
    Route("GET", "/v1/things", list_things, Access.VIEWER),
    Route("GET", r"/v1/things/{id}", show, Access.PUBLIC, answer=Thing),
    Route("GET", "/v1/broken", broken, Access.PUBLIC),
    Route("POST", "/v1/names", count, Access.PUBLIC),
    Route("GET", "/v1/breaks-off/{how}", breaks_off, Access.PUBLIC, media="text/plain"),
]


async def authenticate(request: web.Request) -> Principal | None:
    token = bearer_token(request)
    if token is None:
        return None
    if token not in {"viewer", "editor", "admin"}:
        raise Unauthorized("The token is not ours.")
    return User(id=uuid4(), tenant_id=uuid4(), tenant="acme", role=token)


@pytest.fixture
async def client(aiohttp_client: AiohttpClient) -> Client:
    info = ServiceInfo("test-service", "1.0", "For tests.")
    return await aiohttp_client(create_base_app(info, authenticate, ROUTES))


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}"}


async def test_every_kind_of_error_is_a_problem_with_the_request_id(client: Client) -> None:
    calls = [
        ("GET", "/nowhere", {}, None, 404, "/problems/not-found"),
        ("PATCH", "/v1/things", {}, None, 405, "/problems/method-not-allowed"),
        ("POST", "/v1/things", {}, b"{}", 401, "/problems/unauthorized"),
        ("POST", "/v1/things", bearer("nobody"), b"{}", 401, "/problems/unauthorized"),
        ("POST", "/v1/things", bearer("viewer"), b"{}", 403, "/problems/forbidden"),
        ("POST", "/v1/things", bearer("editor"), b"<xml/>", 415, "/problems/unsupported-type"),
        ("GET", "/v1/broken", {}, None, 500, "/problems/internal-error"),
    ]
    for method, path, headers, data, status, type_ in calls:
        headers |= {"X-Request-Id": "req-1"}

        response = await client.request(method, path, headers=headers, data=data)

        body = await response.json()
        assert response.status == status, (method, path, body)
        assert response.content_type == "application/problem+json"
        assert (body["type"], body["status"], body["request_id"]) == (type_, status, "req-1")
        assert response.headers["X-Request-Id"] == "req-1"


async def test_an_unexpected_error_says_nothing_of_its_reason(client: Client) -> None:
    response = await client.get("/v1/broken")

    assert "hunter2" not in await response.text()


@pytest.mark.parametrize("how", ["known", "unknown"])
async def test_an_error_in_the_middle_of_an_answer_breaks_it_off(client: Client, how: str) -> None:
    response = await client.get(f"/v1/breaks-off/{how}")

    received = await response.content.readexactly(10)
    with pytest.raises(ClientPayloadError):
        await response.content.read()
    assert received == b"half of it"


async def test_a_method_that_is_not_allowed_is_answered_with_those_that_are(client: Client) -> None:
    response = await client.patch("/v1/things")

    assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"name": ""}', "/name"),
        ('{"name": "x", "size": -1}', "/size"),
        ('{"name": "x", "more~/": 1}', "/more~0~1"),
        ('{"name": "\\ud800"}', ""),
        ("{", ""),
        ("[]", ""),
        ("", ""),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_with_a_pointer(client: Client, body: str, pointer: str) -> None:
    headers = bearer("editor") | {"Content-Type": "application/json"}

    response = await client.post("/v1/things", headers=headers, data=body)

    problem = await response.json()
    assert response.status == 422
    assert problem["type"] == "/problems/invalid-body"
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_a_list_as_body_keeps_its_limits(client: Client) -> None:
    statuses = [(await client.post("/v1/names", json=["a"] * size)).status for size in (2, 3)]

    assert statuses == [200, 422]


async def test_a_public_route_does_not_look_at_credentials(client: Client) -> None:
    response = await client.post("/v1/names", json=[], headers=bearer("nobody"))

    assert response.status == 200


async def test_a_body_over_the_limit_is_refused(client: Client) -> None:
    headers = bearer("editor") | {"Content-Type": "application/json"}

    response = await client.post("/v1/things", headers=headers, data=io.BytesIO(b" " * ((1 << 20) + 1)))

    assert response.status == 413
    assert (await response.json())["type"] == "/problems/too-large"


async def test_an_error_of_the_domain_keeps_its_members(client: Client) -> None:
    response = await client.post("/v1/things", headers=bearer("editor"), json={"name": "taken"})

    problem = await response.json()
    assert (response.status, problem["type"], problem["name"]) == (409, "/problems/name-taken", "taken")


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "other=1", "limit=1&limit=2"])
async def test_a_query_that_does_not_fit_is_refused(client: Client, query: str) -> None:
    response = await client.get(f"/v1/things?{query}", headers=bearer("viewer"))

    assert response.status == 422


async def test_an_id_that_is_none_is_not_found(client: Client) -> None:
    response = await client.get("/v1/things/..%2f..%2fetc")

    assert response.status == 404


async def test_readyz_names_the_failed_check_and_turns_503_while_draining(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexarch.http._CHECK_CACHE_S", 0.0)
    app = client.app
    assert app is not None

    async def away() -> None:
        raise ConnectionRefusedError("password=hunter2")

    ready = await client.get("/readyz")
    app[CHECKS]["registry"] = away
    failed = await client.get("/readyz")
    app[CHECKS].clear()
    app[DRAINING].set()
    draining = await client.get("/readyz")
    alive = await client.get("/livez")

    assert (ready.status, failed.status, draining.status, alive.status) == (200, 503, 503, 200)
    assert await failed.json() == {"status": "unavailable", "failed": {"registry": "ConnectionRefusedError"}}


async def test_a_check_may_say_why_it_failed(client: Client) -> None:
    async def broken() -> None:
        raise NotReady("STORAGE_DIR differs.")

    app = client.app
    assert app is not None
    app[CHECKS]["store"] = broken

    response = await client.get("/readyz")

    assert (await response.json())["failed"] == {"store": "STORAGE_DIR differs."}


async def test_a_check_that_hangs_is_a_failed_check(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexarch.http._CHECK_TIMEOUT_S", 0.05)
    app = client.app
    assert app is not None
    app[CHECKS]["store"] = asyncio.Event().wait

    response = await client.get("/readyz")

    assert (await response.json())["failed"] == {"store": "TimeoutError"}


async def test_metrics_count_by_route_template_and_never_by_raw_path(client: Client) -> None:
    await client.get(f"/v1/things/{uuid4()}")
    await client.get("/a/path/of/a/stranger")

    text = await (await client.get("/metrics")).text()

    assert 'nexarch_http_requests_total{method="GET",route="/v1/things/{id}",status="200"} 1.0' in text
    assert 'route="unmatched",status="404"' in text
    assert "stranger" not in text


async def test_the_openapi_document_is_valid_and_lists_every_route(client: Client) -> None:
    document = await (await client.get("/openapi.json")).json()

    validate(document)
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {
        (route.method, route.resource.canonical)
        for route in client.app.router.routes()
        if route.resource is not None and route.resource.name != UNMATCHED and route.method != "HEAD"
    }
    assert described == served
    post = document["paths"]["/v1/things"]["post"]
    assert set(post["responses"]) == {"201", "401", "403", "409", "422", "503"}
    assert post["summary"] == "add a thing"
    assert post["security"] == [{"user": []}]


async def test_the_docs_page_needs_no_script_and_no_other_host(client: Client) -> None:
    response = await client.get("/docs")

    page = await response.text()
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "/v1/things/{id}" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


async def test_the_docs_page_shows_codes_as_code_and_the_limits_of_parameters(client: Client) -> None:
    response = await client.get("/docs")

    page = await response.text()
    assert "<code>unauthorized</code>" in page
    assert "`" not in page
    assert "integer, at least 1, at most 200, default 50" in page


async def test_a_body_that_never_ends_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_BODY_TIMEOUT_S", 0.2)
    ended = asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        yield b'{"name": '
        await ended.wait()

    headers = bearer("editor") | {"Content-Type": "application/json"}
    async with client.post("/v1/things", headers=headers, data=trickle()) as response:
        problem = await response.json()
        ended.set()

    assert (response.status, problem["type"]) == (408, "/problems/request-timeout")


@pytest.mark.parametrize("announced", ["by its length", "by nothing", "as packed"])
async def test_large_bodies_have_room_for_so_many_at_once_and_small_ones_always_come_in(
    aiohttp_client: AiohttpClient, monkeypatch: pytest.MonkeyPatch, announced: str
) -> None:
    monkeypatch.setattr(routing, "_BODIES_ROOM", 3 << 20)  # a third is for one person alone
    info = ServiceInfo("test-service", "1.0", "For tests.")
    client = await aiohttp_client(create_base_app(info, authenticate, ROUTES))
    began, ended = asyncio.Event(), asyncio.Event()
    headers = bearer("editor") | {"Content-Type": "application/json"}
    headers |= {
        "by its length": {"Content-Length": str(1 << 20)},
        "by nothing": {},
        "as packed": {"Content-Length": "1000", "Content-Encoding": "gzip"},
    }[announced]

    async def slow() -> AsyncIterator[bytes]:
        yield gzip.compress(b" ") if announced == "as packed" else b" "
        began.set()
        await ended.wait()

    first = asyncio.create_task(client.post("/v1/things", headers=headers, data=slow()))
    await began.wait()
    large, as_json = b'{"name": "large"}'.rjust(1 << 20), bearer("editor") | {"Content-Type": "application/json"}
    refused = await client.post("/v1/things", headers=as_json, data=io.BytesIO(large))
    small = await client.post("/v1/things", headers=bearer("editor"), json={"name": "small"})
    ended.set()
    first.cancel()
    await asyncio.wait([first])

    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert (await refused.json())["type"] == "/problems/at-capacity"
    assert small.status == 201

    async def there_is_room_again() -> bool:
        again = await client.post("/v1/things", headers=as_json, data=io.BytesIO(large))
        return again.status == 201

    await eventually(there_is_room_again)


async def test_a_body_that_is_not_what_its_headers_say_is_a_problem(client: Client) -> None:
    headers = bearer("editor") | {"Content-Type": "application/json", "Content-Encoding": "gzip"}

    response = await client.post("/v1/things", headers=headers, data=b"not gzip")

    assert response.status == 422
    assert (await response.json())["type"] == "/problems/body-unreadable"


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/things"), ("POST", "/v1/things")])
async def test_an_expectation_that_nobody_knows_is_a_problem(client: Client, method: str, path: str) -> None:
    response = await client.request(method, path, headers=bearer("editor") | {"Expect": "the unexpected"})

    problem = await response.json()
    assert (response.status, problem["type"]) == (417, "/problems/expectation-failed")
    assert problem["request_id"] == response.headers["X-Request-Id"]


async def test_an_expectation_where_nobody_reads_is_not_answered(client: Client) -> None:
    for expectation in ("the unexpected", "100-continue"):
        for method, path, status in (("PUT", "/nowhere", 404), ("PUT", "/v1/things", 405)):
            response = await client.request(method, path, headers={"Expect": expectation})

            assert (response.status, response.content_type) == (status, "application/problem+json")
