import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog
from aiohttp import web
from pytest_aiohttp import AiohttpServer

from nexarch import logs


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    handlers, level = logging.getLogger().handlers, logging.getLogger().level
    logs.configure("demo", "info", "json")
    yield stream
    logging.getLogger().handlers = handlers
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()


def test_a_line_is_one_json_object_with_the_bound_values_and_the_service(output: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1", tenant="acme"):
        structlog.get_logger("x").info("hello", size=3)
        logging.getLogger("asyncpg").warning("from a %s", "library")

    first, second = (json.loads(line) for line in output.getvalue().splitlines())
    assert first | {"timestamp": ""} == {
        "event": "hello", "size": 3, "request_id": "r1", "tenant": "acme", "service": "demo",
        "level": "info", "logger": "x", "timestamp": "",
    }  # fmt: skip
    assert (second["event"], second["request_id"]) == ("from a library", "r1")


def test_secrets_are_redacted_by_name_in_addresses_and_in_tracebacks(output: io.StringIO) -> None:
    log = structlog.get_logger("x")
    log.info("a", password="hunter2", client_secret="hunter2", kek="hunter2", registry_dsn="hunter2")
    log.info("b", error="cannot reach postgresql://core:hunter2@db/x")
    log.error("c", exc_info=ConnectionError("postgresql://core:hunter2@db/x"))

    assert len(output.getvalue().splitlines()) == 3
    assert "hunter2" not in output.getvalue()
    assert "postgresql://core:" in output.getvalue()


def test_the_redaction_does_not_hide_words_that_only_look_like_secrets(output: io.StringIO) -> None:
    structlog.get_logger("x").info("a", storage_key="documents/1", keys=2, monkey="x")

    assert json.loads(output.getvalue())["keys"] == 2
    assert json.loads(output.getvalue())["monkey"] == "x"


@pytest.mark.usefixtures("output")  # puts the logging back
def test_a_person_reads_a_request_as_one_short_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("demo", "info", "console")

    structlog.get_logger("x").info("request", method="GET", route="/v1/documents", status=200, ms=3.2, request_id="r1")

    line = capsys.readouterr().err
    assert "GET /v1/documents 200 in 3.2 ms" in line
    assert "request_id=r1" in line


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /livez HTTP/1.1\r\nAuthorization: Bearer hunter2\x00\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"hunter2" * 2000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nthe password is hunter2",
        b"GET /livez?password=hunter2 hunter2 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_a_request_that_cannot_be_read_is_not_quoted(
    output: io.StringIO, aiohttp_server: AiohttpServer, request_: bytes
) -> None:
    server = await aiohttp_server(web.Application())

    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request_)
    await reader.read()
    writer.close()

    assert "unreadable request" in output.getvalue()
    assert "hunter2" not in output.getvalue()
    assert "Traceback" not in output.getvalue()


async def test_who_goes_away_in_the_middle_of_a_request_is_no_error(
    output: io.StringIO, aiohttp_server: AiohttpServer
) -> None:
    ended = asyncio.Event()

    async def read(request: web.Request) -> web.Response:
        try:
            return web.Response(body=await request.read())
        finally:
            ended.set()

    app = web.Application()
    app.router.add_post("/", read)
    server = await aiohttp_server(app)

    _, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
    await writer.drain()
    writer.close()
    async with asyncio.timeout(5):
        await ended.wait()
    await server.close()

    assert "error" not in output.getvalue().lower()
