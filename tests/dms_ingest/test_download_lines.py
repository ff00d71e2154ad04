"""Downloads over lines that are slow, stand still or break: the right bytes, and no more memory than for a fast one."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from dms_ingest.views.downloads import send_chunks
from support.fetching import content_path, object_file
from support.files import open_files
from support.ingest import Ingest, Person, a_pdf, ingest_settings, run_ingest_process, serving, sign_in
from support.raw_line import begin
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20
SEGMENT = 262_112  # bytes of plaintext
BUFFER = 4096  # of a slow line: so little that no write of the service is taken at once


@contextmanager
def slow_line(url: str) -> Iterator[socket.socket]:
    """A connection that takes a few kilobytes at a time."""
    place = urlsplit(url)
    with closing(socket.socket()) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        line.connect((place.hostname, place.port))
        yield line


def ask(line: socket.socket, path: str, *headers: str) -> None:
    line.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]).encode())


def read_in_odd_sizes(url: str, path: str, *headers: str) -> bytes:
    """The body that comes to a slow reader."""
    chance, received = Random(5), bytearray()
    with slow_line(url) as line:
        ask(line, path, *headers)
        while piece := line.recv(chance.randrange(1, 3 * BUFFER)):
            received += piece
    return bytes(received.partition(b"\r\n\r\n")[2])


async def test_a_slow_reader_gets_every_byte_as_it_is(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(9 * MIB + 5)
    document = await ingest.upload(editor, content)
    token = f"Authorization: Bearer {editor.token}"

    for start, stop in [(0, len(content)), (SEGMENT - 1, 20 * SEGMENT), (SEGMENT, 20 * SEGMENT + 1)]:
        asked = f"Range: bytes={start}-{stop - 1}"
        body = await asyncio.to_thread(read_in_odd_sizes, ingest.url, content_path(document), token, asked)

        assert body == content[start:stop]


async def test_a_chunk_has_left_the_service_before_its_buffer_is_used_again() -> None:
    pieces, held = [Random(n).randbytes(700_000 if n % 2 else 30_000) for n in range(10)], []

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        transport = request.transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)

        async def chunks() -> AsyncIterator[memoryview]:
            buffer = bytearray(max(map(len, pieces)))
            for piece in pieces:
                buffer[: len(piece)] = piece
                yield memoryview(buffer)[: len(piece)]
                held.append(transport.get_write_buffer_size())

        response = web.StreamResponse()
        response.content_length = sum(map(len, pieces))
        await send_chunks(request, response, chunks())
        return response

    app = web.Application()
    app.router.add_get("/", handle)
    async with serving(app) as url:
        body = await asyncio.to_thread(read_in_odd_sizes, url, "/")

    assert body == b"".join(pieces)
    # Newer versions of asyncio than 3.11's keep no copy of what a socket did not take, but a view of it.
    assert held == [0] * len(pieces)


async def test_a_download_ends_with_its_line(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(20 * MIB))
    stored = object_file(ingest, editor, document)

    async def is_closed() -> bool:
        return str(stored) not in open_files()

    line = await begin(ingest, editor, "GET", content_path(document))
    assert await line.status() == 200
    assert not await is_closed()
    line.reset()

    await eventually(is_closed)


async def test_readers_who_stand_still_hold_little_memory(core_api: CoreApi, bus_dsn: str, tmp_path: Path) -> None:
    readers, most_for_each = 8, 12 * MIB
    person = await sign_in(core_api)
    async with run_ingest_process(ingest_settings(core_api, bus_dsn, tmp_path)) as (ingest, process):
        document = await ingest.upload(person, a_pdf(32 * MIB))
        before = process.reset_peak()

        lines = [await begin(ingest, person, "GET", content_path(document)) for _ in range(readers)]
        assert [await line.status() for line in lines] == [200] * readers
        async with ingest.session.get(ingest.url + content_path(document), headers=person.headers) as response:
            assert len(await response.read()) == 32 * MIB  # long after the others were sent what they take
        peak = process.peak_bytes()
        for line in lines:
            line.reset()

    assert peak - before < (readers + 1) * most_for_each
