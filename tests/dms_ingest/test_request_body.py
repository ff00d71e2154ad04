"""Bodies that are read slower or faster than they come."""

import asyncio
import os

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from dms_ingest.views.request_body import raw_body

MIB = 1 << 20


async def send(url: str, *pieces: bytes, meanwhile: asyncio.Event | None = None) -> bytes:
    """A PUT with these pieces; the last one only after the event. Returns what is answered, to its end."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    size = sum(map(len, pieces))
    writer.write(f"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode())
    for piece in pieces[:-1]:
        writer.write(piece)
        await writer.drain()
    if meanwhile is not None:
        await asyncio.wait_for(meanwhile.wait(), 15)
    writer.write(pieces[-1])
    answer = await asyncio.wait_for(reader.read(), 15)
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("room_size", [100_000, MIB])
async def test_a_body_that_comes_faster_than_it_is_read_waits_on_the_line(
    aiohttp_server: AiohttpServer, room_size: int
) -> None:
    content, read = os.urandom(6 * MIB), bytearray()

    async def put(request: web.Request) -> web.Response:
        room = rest = memoryview(bytearray(room_size))

        def took(count: int) -> None:
            nonlocal rest
            read.extend(rest[:count])
            rest = rest[count:]

        with raw_body(request) as body:
            while await body.read_into(rest, took):
                if body._direct is not None:
                    await asyncio.sleep(0.002)  # a slow reader is what this test is about
                rest = room
        return web.Response()

    app = web.Application()
    app.router.add_put("/", put)
    server = await aiohttp_server(app)

    answer = await send(str(server.make_url("/")), content)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert read == content


async def test_a_body_that_stands_still_is_given_out_as_far_as_it_came(aiohttp_server: AiohttpServer) -> None:
    content, given_out = os.urandom(2 * MIB), asyncio.Event()
    sizes = list[int]()

    async def put(request: web.Request) -> web.Response:
        room = memoryview(bytearray(8 * MIB))
        with raw_body(request) as body:
            while await body.read_into(room[sum(sizes) :], sizes.append):
                if sum(sizes) == MIB:
                    given_out.set()
        assert room[: 2 * MIB] == content
        return web.Response()

    app = web.Application()
    app.router.add_put("/", put)
    server = await aiohttp_server(app)

    answer = await send(str(server.make_url("/")), content[:MIB], content[MIB:], meanwhile=given_out)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert sum(sizes) == 2 * MIB
