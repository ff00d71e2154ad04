"""What comes in by a route: bodies, queries, ids, expectations; what does not fit is refused."""

import asyncio
import gzip
import io
from collections.abc import AsyncIterator

import pytest
from pytest_aiohttp import AiohttpClient

from nexarch import routing
from support.things import Client, bearer, create_app
from support.waiting import eventually


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


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "other=1", "limit=1&limit=2"])
async def test_a_query_that_does_not_fit_is_refused(client: Client, query: str) -> None:
    response = await client.get(f"/v1/things?{query}", headers=bearer("viewer"))

    assert response.status == 422


async def test_an_id_that_is_none_is_not_found(client: Client) -> None:
    response = await client.get("/v1/things/..%2f..%2fetc")

    assert response.status == 404


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
    client = await aiohttp_client(create_app())
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
