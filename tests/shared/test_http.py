"""What every service has of the frame: errors as problems, /readyz, /metrics."""

import asyncio
from uuid import uuid4

import pytest
from aiohttp import ClientPayloadError

from nexarch.errors import NotReady
from nexarch.http import CHECKS, DRAINING
from support.things import Client, bearer


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


async def test_an_error_of_the_domain_keeps_its_members(client: Client) -> None:
    response = await client.post("/v1/things", headers=bearer("editor"), json={"name": "taken"})

    problem = await response.json()
    assert (response.status, problem["type"], problem["name"]) == (409, "/problems/name-taken", "taken")


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
