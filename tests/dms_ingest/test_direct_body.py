"""Large bodies that pass aiohttp by: every byte counts, and what follows on the line is the next request."""

import gzip
import hashlib
import os
from typing import TypeVar

import pytest

from dms_ingest.line import Line
from dms_ingest.receiving import UploadLocked
from dms_ingest.views.direct_body import DirectBody
from dms_ingest.views.request_body import _MUCH
from support.ingest import PDF
from support.raw_line import RawLine, begin
from support.tus import CHUNK_TYPE, Tus, document_of
from support.waiting import eventually

pytestmark = pytest.mark.database

T = TypeVar("T")

MIB = 1 << 20


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were still to come, whenever aiohttp was passed by."""
    lengths, make = list[int](), DirectBody.__init__

    def note(body: DirectBody, request: object, transport: object, length: int) -> None:
        lengths.append(length)
        make(body, request, transport, length)  # type: ignore[arg-type]

    monkeypatch.setattr(DirectBody, "__init__", note)
    return lengths


def head_of(tus: Tus, method: str, path: str, *headers: str) -> bytes:
    """The head of a request on a line that is open."""
    wanted = ["Host: ingest", f"Authorization: Bearer {tus.person.token}", "Tus-Resumable: 1.0.0", *headers]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *wanted, "", ""]).encode()


async def begin_patch(tus: Tus, path: str, offset: int, size: int) -> RawLine:
    wanted = ["Tus-Resumable: 1.0.0", f"Content-Type: {CHUNK_TYPE}", f"Upload-Offset: {offset}"]
    return await begin(tus.ingest, tus.person, "PATCH", path, *wanted, f"Content-Length: {size}")


async def half_sent(tus: Tus, path: str, size: int, sent: bytes, taken_over: list[int]) -> RawLine:
    """A PATCH from the first byte on, of which so much is on its way, past aiohttp by now."""
    line = await begin_patch(tus, path, 0, size)
    await line.send(sent)
    await eventually(lambda: _came(taken_over))
    return line


async def _came(taken_over: list[int]) -> bool:
    return bool(taken_over)


@pytest.mark.parametrize(
    "size", [_MUCH - 1, _MUCH, _MUCH + 1, MIB, MIB + 1, 3 * MIB - 7], ids=lambda size: f"{size} bytes"
)
async def test_the_requests_behind_a_body_are_answered_in_their_order(
    tus: Tus, taken_over: list[int], size: int
) -> None:
    content = PDF + os.urandom(size - len(PDF))
    path = await tus.create(size, sha256=hashlib.sha256(content).hexdigest())
    line = await begin_patch(tus, path, 0, size)

    await line.send(content + head_of(tus, "HEAD", path))

    assert await line.status() == 204
    document_id = (await line.head())["nexarch-document-id"]
    assert await line.status() == 200
    assert (await line.head())["upload-offset"] == str(size)
    await line.send(head_of(tus, "HEAD", path, f"X-Long: {'x' * 9000}"))
    assert await line.status() == 400, "limits are as before"
    await line.close()
    assert (await document_of(tus, document_id))[1:] == (size, hashlib.sha256(content).hexdigest())
    assert len(taken_over) == (size >= MIB), "else the test shows nothing"


async def test_the_request_behind_a_chunk_that_is_not_the_last_is_no_part_of_it(
    tus: Tus, taken_over: list[int]
) -> None:
    path = await tus.create(4 * MIB)
    line = await begin_patch(tus, path, 0, MIB + 1)
    await line.send(PDF)
    await line.send(os.urandom(MIB + 1 - len(PDF) - 10))
    await eventually(lambda: _came(taken_over))

    await line.send(b"x" * 10 + head_of(tus, "HEAD", path))

    assert await line.status() == 204
    await line.head()
    assert await line.status() == 200
    assert (await line.head())["upload-offset"] == str(MIB + 1)
    await line.close()


@pytest.mark.parametrize("codings", [("identity", "gzip"), ("IDENTITY", "gzip"), ("gzip", "identity")], ids=", ".join)
async def test_a_body_that_aiohttp_would_unpack_is_refused_and_the_line_goes_on_behind_it(
    tus: Tus, codings: tuple[str, ...]
) -> None:
    body = gzip.compress(PDF + os.urandom(MIB) + bytes(MIB))
    path = await tus.create(4 * MIB)
    wanted = ["Upload-Offset: 0", f"Content-Type: {CHUNK_TYPE}", *(f"Content-Encoding: {name}" for name in codings)]
    line = await begin(
        tus.ingest, tus.person, "PATCH", path, "Tus-Resumable: 1.0.0", *wanted, f"Content-Length: {len(body)}"
    )

    await line.send(body + head_of(tus, "HEAD", path))

    assert await line.status() == 415
    answer = await line.head()
    await line.reader.readexactly(int(answer["content-length"]))
    assert await line.status() == 200
    assert (await line.head())["upload-offset"] == "0"
    await line.close()


async def test_many_chunks_on_one_line_make_the_file(tus: Tus, taken_over: list[int]) -> None:
    content = PDF + os.urandom(5 * MIB)
    path = await tus.create(len(content), sha256=hashlib.sha256(content).hexdigest())
    line = await begin_patch(tus, path, 0, MIB)
    offset = MIB
    await line.send(content[:MIB])
    while offset < len(content):
        assert await line.status() == 204
        await line.head()
        piece = content[offset : offset + MIB]
        where = f"Upload-Offset: {offset}"
        await line.send(
            head_of(tus, "PATCH", path, where, f"Content-Type: {CHUNK_TYPE}", f"Content-Length: {len(piece)}")
        )
        await line.send(piece)
        offset += len(piece)

    assert await line.status() == 204
    assert "nexarch-document-id" in await line.head()
    await line.close()
    assert len(taken_over) > 1


async def test_what_came_before_another_request_ends_the_chunk_counts_to_the_last_byte(
    tus: Tus, taken_over: list[int]
) -> None:
    sent = PDF + os.urandom(2 * MIB + 77)
    path = await tus.create(8 * MIB)
    line = await half_sent(tus, path, 8 * MIB, sent, taken_over)

    head = await tus.head(path)

    assert head.offset == len(sent)
    assert await line.status() == 409
    await line.close()


async def test_a_line_that_is_cut_as_its_last_bytes_come_takes_the_next_request(
    tus: Tus, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, bodies = _noted(monkeypatch, Line), _noted(monkeypatch, DirectBody)
    path = await tus.create(4 * MIB)
    line = await begin_patch(tus, path, 0, 2 * MIB)
    await line.send(PDF + os.urandom(2 * MIB - len(PDF) - 10))
    await eventually(lambda: _waits_for(bodies, 10))

    os.write(line.writer.get_extra_info("socket").fileno(), b"x" * 10)
    lines[0].cut(UploadLocked("Another request works on this upload.", retry_after_s=1))

    assert await line.status() == 423
    answer = await line.head()
    await line.reader.readexactly(int(answer["content-length"]))
    await line.send(head_of(tus, "HEAD", path))
    assert await line.status() == 200
    assert (await line.head())["upload-offset"] == str(2 * MIB)
    await line.close()


def _noted(monkeypatch: pytest.MonkeyPatch, kind: type[T]) -> list[T]:
    """Those that are made from now on."""
    made, make = list[T](), kind.__init__

    def note(it: T, *arguments: object) -> None:
        made.append(it)
        make(it, *arguments)

    monkeypatch.setattr(kind, "__init__", note)
    return made


async def _waits_for(bodies: list[DirectBody], count: int) -> bool:
    return [body._to_come for body in bodies] == [count]


async def test_the_rest_of_a_refused_body_is_no_request_and_the_line_goes_on_behind_it(
    tus: Tus, taken_over: list[int]
) -> None:
    size = 4 * MIB + 12_346  # no multiple of what is read at once
    path = await tus.create(size)
    smuggled = head_of(tus, "DELETE", path)
    body = (smuggled * (size // len(smuggled) + 1))[:size]
    line = await half_sent(tus, path, size, body[: size // 2], taken_over)
    await tus.head(path)  # ends the chunk
    assert await line.status() == 409
    answer = await line.head()
    await line.reader.readexactly(int(answer["content-length"]))

    await line.send(body[size // 2 :] + head_of(tus, "HEAD", path))

    assert await line.status() == 200
    assert int((await line.head())["upload-offset"]) == size // 2
    await line.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_line_that_breaks_is_told_once_and_leaves_nothing_behind(
    tus: Tus, taken_over: list[int], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    sent = PDF + os.urandom(2 * MIB + 77)
    path = await tus.create(8 * MIB)
    line = await half_sent(tus, path, 8 * MIB, sent, taken_over)

    if how == "close":
        await line.close()
    else:
        line.reset()

    async def came() -> bool:
        return (await tus.head(path)).offset > 0

    await eventually(came)
    offset = (await tus.head(path)).offset
    assert offset == len(sent) if how == "close" else 0.9 * len(sent) <= offset <= len(sent)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
