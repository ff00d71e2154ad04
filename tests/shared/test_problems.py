"""What a client is told of errors that come up from below."""

import socket

import aiohttp
import asyncpg
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from pytest_aiohttp import AiohttpClient
from structlog.testing import capture_logs

from nexarch.auth import Access
from nexarch.errors import InsufficientStorage, NexarchError, Unavailable
from nexarch.http import ServiceInfo, create_base_app
from nexarch.routing import Route
from nexarch.usage import QuotaExceeded


async def nobody(request: web.Request) -> None:
    """Asks for no credentials."""


def app_with(handler: Handler) -> web.Application:
    """A service with this handler at /v1/x, for everybody."""
    info = ServiceInfo("test-service", "1.0", "For tests.")
    return create_base_app(info, nobody, [Route("GET", "/v1/x", handler, Access.PUBLIC)])


def failing(error: Exception) -> Handler:
    async def fail(request: web.Request) -> web.Response:
        """Meet it."""
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (asyncpg.DeadlockDetectedError("deadlock detected"), "database-busy"),
        (asyncpg.LockNotAvailableError("canceling statement due to lock timeout"), "database-busy"),
        (asyncpg.TooManyConnectionsError("too many clients already"), "database-away"),
        (
            asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
            "database-away",
        ),
        (ConnectionResetError("by the server, while we signed in"), "database-away"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "database-away"),
        (OSError("Multiple exceptions: [Errno 111] ... ('::1', ...), [Errno 111] ..."), "database-away"),
    ],
)
async def test_trouble_of_the_database_that_passes_is_503(
    aiohttp_client: AiohttpClient, error: Exception, code: str
) -> None:
    client = await aiohttp_client(app_with(failing(error)))

    response = await client.get("/v1/x")

    problem = await response.json()
    assert (response.status, problem["type"]) == (503, f"/problems/{code}")
    assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("error", "again_s"),
    [
        (Unavailable("Away."), "5"),
        (Unavailable("Away.", retry_after_s=2), "2"),
        (InsufficientStorage("Full."), "10"),
        (QuotaExceeded("A person has to make room."), None),
    ],
)
async def test_who_is_told_that_something_is_away_or_full_is_told_when_to_come_again(
    aiohttp_client: AiohttpClient, error: NexarchError, again_s: str | None
) -> None:
    client = await aiohttp_client(app_with(failing(error)))

    response = await client.get("/v1/x")

    assert response.headers.get("Retry-After") == again_s


@pytest.mark.parametrize("kind", [ConnectionError, ConnectionResetError, BrokenPipeError])
async def test_a_client_who_goes_away_while_it_is_sent_to_is_not_called_trouble_of_the_database(
    aiohttp_client: AiohttpClient, kind: type[ConnectionError]
) -> None:
    async def lose(request: web.Request) -> web.Response:
        """Find that the line is broken, as `drain` says it."""
        assert request.transport is not None
        request.transport.abort()
        raise kind("Connection lost")

    client = await aiohttp_client(app_with(lose))

    with capture_logs() as lines, pytest.raises(aiohttp.ServerDisconnectedError):
        await client.get("/v1/x", headers={"Connection": "close"})

    assert [line["event"] for line in lines] == ["request"]
