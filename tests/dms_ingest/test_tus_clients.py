"""Stock tus clients upload over a line that is reset, closed, left half open, and keeps answers to itself; and while
the last byte cannot become a document."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tusclient.client import TusClient

from dms_ingest.completing import Completer
from nexarch.auth import User
from support import js_clients
from support.core_line import run_ingest_over_line
from support.faulty_line import Fault, FaultyLine, How, run_faulty_line
from support.files import write_pdf
from support.ingest import PDF, Ingest, Person
from support.services import CoreApi

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("npm_packages")]

MIB = 1 << 20
SIZE = 6 * MIB + 12_345
CHUNK = MIB
# The last one lies in the last chunk: its answer, which names the document, is lost.
FAULTS: list[tuple[int, How]] = [
    (MIB // 2, "reset"),
    (2 * MIB + 7, "close"),
    (3 * MIB + 500_000, "stall"),
    (4 * MIB + 900_000, "swallow"),
    (SIZE + 1000, "swallow"),
]
HEADERS = 40_000  # bytes of all requests' heads


def faults() -> list[Fault]:
    return [Fault(at, how) for at, how in FAULTS]


async def check(ingest: Ingest, person: Person, line: FaultyLine, digest: str, *, resent: int) -> str:
    """There is one document with these bytes, and no more than so many were sent again; returns its id."""
    _, page = await ingest.call(person, "GET", "/v1/documents")
    [document] = page["items"]
    assert document["current_revision"]["sha256"] == digest
    async with ingest.session.get(
        f"{ingest.url}/v1/documents/{document['id']}/content", headers=person.headers
    ) as response:
        assert hashlib.sha256(await response.read()).hexdigest() == digest
    assert line.faults == [], "all of them happened"
    assert line.taken - SIZE - HEADERS <= resent
    id_: str = document["id"]
    return id_


def task(line: FaultyLine, person: Person, path: Path, digest: str, **options: object) -> dict[str, Any]:
    return {
        "endpoint": f"{line.url}/files/",
        "token": person.token,
        "path": str(path),
        "metadata": {"filename": "Größe 文書.pdf", "filetype": "application/pdf", "sha256": digest},
        "options": options,
    }


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ("tus-js-client", {"chunkSize": CHUNK}),
        ("tus-js-client", {"chunkSize": CHUNK, "overridePatchMethod": True, "uploadDataDuringCreation": False}),
        ("tus-js-client", {}),
        ("uppy", {"chunkSize": CHUNK}),
    ],
    ids=["tus-js-client", "tus-js-client without PATCH", "tus-js-client in one request", "uppy"],
)
async def test_a_javascript_client_gets_its_file_through(
    ingest: Ingest, editor: Person, tmp_path: Path, client: str, options: dict[str, object]
) -> None:
    path = tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url, *faults()) as line:
        uploaded = await js_clients.upload(client, task(line, editor, path, digest, **options))

    assert uploaded.document_id == await check(ingest, editor, line, digest, resent=len(FAULTS) * CHUNK)
    assert uploaded.url.startswith(f"{line.url}/files/"), "Location led back through the proxy"


async def test_tus_js_client_uploads_parts_at_once_and_puts_them_together(
    ingest: Ingest, editor: Person, tmp_path: Path
) -> None:
    path = tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url, *faults()[:4]) as line:
        options = {"parallelUploads": 3, "chunkSize": CHUNK}
        uploaded = await js_clients.upload("tus-js-client", task(line, editor, path, digest, **options))

    # A fault hits what three lines have on their way.
    assert uploaded.document_id == await check(ingest, editor, line, digest, resent=3 * len(FAULTS) * CHUNK)


async def test_tus_js_client_uploads_a_stream_whose_length_it_does_not_know(
    ingest: Ingest, editor: Person, tmp_path: Path
) -> None:
    path = tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url) as line:
        options = {"uploadLengthDeferred": True, "chunkSize": CHUNK}
        uploaded = await js_clients.upload("tus-js-client", task(line, editor, path, digest, **options))

    assert uploaded.document_id == await check(ingest, editor, line, digest, resent=0)


def upload_with_tuspy(url: str, person: Person, path: Path, digest: str, *, checksum: bool = False) -> None:
    """Upload a file; blocks."""
    uploader = TusClient(f"{url}/files/", headers=person.headers).uploader(
        file_stream=BytesIO(path.read_bytes()),
        chunk_size=CHUNK,
        metadata={"filename": "Größe 文書.pdf", "filetype": "application/pdf", "sha256": digest},
        retries=5,
        retry_delay=0,
        upload_checksum=checksum,
    )
    uploader.upload()


@pytest.mark.parametrize("checksum", [False, True])
async def test_tuspy_gets_its_file_through(ingest: Ingest, editor: Person, tmp_path: Path, checksum: bool) -> None:
    path = tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url, *faults()) as line:
        await asyncio.to_thread(upload_with_tuspy, line.url, editor, path, digest, checksum=checksum)

    await check(ingest, editor, line, digest, resent=len(FAULTS) * CHUNK)


async def test_tuspy_uploads_the_next_revision_of_a_document(ingest: Ingest, editor: Person, tmp_path: Path) -> None:
    document = await ingest.upload(editor, PDF, filename="Vertrag.pdf")
    path = tmp_path / "second.pdf"
    digest = write_pdf(path, SIZE)

    def upload() -> None:
        metadata = {"filename": "neu.pdf", "filetype": "application/pdf", "document_id": document["id"]}
        client = TusClient(f"{ingest.url}/files/", headers=editor.headers)
        with path.open("rb") as file:
            client.uploader(file_stream=file, chunk_size=CHUNK, metadata=metadata).upload()

    await asyncio.to_thread(upload)

    _, now = await ingest.call(editor, "GET", f"/v1/documents/{document['id']}")
    assert (now["name"], now["current_revision"]["number"]) == ("Vertrag.pdf", 2)
    assert now["current_revision"]["sha256"] == digest


@pytest.fixture
async def ingest_away_at_the_end(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ingest]:
    """core-api goes away when the first upload is whole, and is back when that is to be completed for the fifth time:
    after the first PATCH, a HEAD, the last byte, and a HEAD."""
    complete, asked = Completer.complete, 0
    async with run_ingest_over_line(core_api, bus_dsn, tmp_path) as (ingest, core_line):

        async def complete_at_last(completer: Completer, user: User, session_id: UUID) -> UUID:
            nonlocal asked
            asked += 1
            if asked == 1:
                await core_line.close()
            if asked == 5:
                await core_line.open()
            return await complete(completer, user, session_id)

        monkeypatch.setattr(Completer, "complete", complete_at_last)
        yield ingest
    assert asked >= 5


async def refusals(ingest: Ingest) -> dict[tuple[str, str], int]:
    """How often tus clients were refused, by method and status."""
    async with ingest.session.get(f"{ingest.url}/metrics") as answer:
        text = await answer.text()
    pattern = r'nexarch_http_requests_total{method="(\w+)",route="/files/[^"]*",status="([45]\d\d)"} (\d+)'
    return {(method, status): int(count) for method, status, count in re.findall(pattern, text)}


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ("tus-js-client", {"chunkSize": CHUNK}),
        ("tus-js-client", {"chunkSize": CHUNK, "uploadLengthDeferred": True}),
        ("tus-js-client", {"chunkSize": SIZE // 4}),
        ("uppy", {"chunkSize": CHUNK}),
    ],
    ids=["tus-js-client", "tus-js-client of a stream", "tus-js-client with a last chunk of one byte", "uppy"],
)
async def test_a_javascript_client_sends_the_last_byte_again_while_no_document_can_be_made(
    ingest_away_at_the_end: Ingest, editor: Person, tmp_path: Path, client: str, options: dict[str, object]
) -> None:
    ingest, path = ingest_away_at_the_end, tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url) as line:
        uploaded = await js_clients.upload(client, task(line, editor, path, digest, **options))

    assert uploaded.document_id == await check(ingest, editor, line, digest, resent=0)
    assert await refusals(ingest) == {("PATCH", "503"): 2}


async def test_tus_js_client_asks_for_its_parts_to_be_put_together_until_a_document_can_be_made(
    ingest_away_at_the_end: Ingest, editor: Person, tmp_path: Path
) -> None:
    ingest, path = ingest_away_at_the_end, tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url) as line:
        options = {"parallelUploads": 3, "chunkSize": CHUNK}
        uploaded = await js_clients.upload("tus-js-client", task(line, editor, path, digest, **options))

    assert uploaded.document_id == await check(ingest, editor, line, digest, resent=0)
    assert await refusals(ingest) == {("POST", "503"): 4}


@pytest.mark.parametrize("checksum", [False, True])
async def test_tuspy_sends_the_last_byte_again_while_no_document_can_be_made(
    ingest_away_at_the_end: Ingest, editor: Person, tmp_path: Path, checksum: bool
) -> None:
    ingest, path = ingest_away_at_the_end, tmp_path / "file.pdf"
    digest = write_pdf(path, SIZE)
    async with run_faulty_line(ingest.url) as line:
        await asyncio.to_thread(upload_with_tuspy, line.url, editor, path, digest, checksum=checksum)

    await check(ingest, editor, line, digest, resent=0)
    assert await refusals(ingest) == {("PATCH", "503"): 2}


def test_the_pins_of_the_javascript_clients_name_no_registry() -> None:
    lock = (js_clients.CLIENTS / "package-lock.json").read_text()

    assert '"integrity"' in lock
    assert "resolved" not in lock
    assert "://" not in lock
