"""Pages of an allowed origin upload with the clients of docs/uploads.md, over a bad line and after a pause too."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from dms_ingest.tus import TusUploads
from dms_ingest.upload_sessions import Session
from nexarch.auth import User
from support.chromium import Page
from support.faulty_line import Fault, FaultyLine, run_faulty_line
from support.files import write_pdf
from support.ingest import Ingest, Person
from support.tus import VERSION
from support.waiting import eventually

pytestmark = pytest.mark.database

MIB = 1 << 20
SIZE = 6 * MIB + 12_345
CHUNK = MIB
HEADERS = 60_000  # bytes of all requests' heads

ALL = pytest.mark.parametrize("client", ["tus-js-client", "Uppy", "fetch"])
THAT_REMEMBER = pytest.mark.parametrize("client", ["tus-js-client", "Uppy"])


@dataclass(frozen=True, slots=True)
class Chosen:
    """A file that somebody has chosen in the page."""

    path: Path
    digest: str


@pytest.fixture
async def chosen(page: Page, tmp_path: Path) -> Chosen:
    """A PDF of `SIZE` bytes, chosen in the page."""
    path = tmp_path / "契約書 Größe.pdf"
    digest = write_pdf(path, SIZE)
    await page.choose("input", path)
    return Chosen(path, digest)


def options(url: str, person: Person, **more: str) -> str:
    """What the examples of the page take, in JavaScript; `more` are members in JavaScript too."""
    members = {"ingest": json.dumps(url), "token": f"async () => {json.dumps(person.token)}", "chunkSize": str(CHUNK)}
    return "{" + ", ".join(f"{name}: {value}" for name, value in (members | more).items()) + "}"


def uppy(url: str, person: Person, **more: str) -> str:
    """Statements that give Uppy the chosen file and begin; `uploaded` is a promise of the document's id."""
    tells = {"uploaded": "(file, documentId) => resolve(documentId)"}
    return f"""
        let resolve, reject
        globalThis.uploaded = new Promise((...both) => [resolve, reject] = both)
        globalThis.uppy = examples.uppy.uploader({options(url, person, **tells, **more)})
        uppy.on('upload-error', (file, error) => reject(error))
        uppy.addFile({{name: chosen().name, type: chosen().type, data: chosen()}})
        void uppy.upload()
    """


def upload(client: str, url: str, person: Person) -> str:
    """A call that uploads the chosen file; its value is the document's id."""
    match client:
        case "tus-js-client":
            about = {"filename": "chosen().name", "filetype": "chosen().type"}
            return f"examples.tus.upload(chosen(), {options(url, person, **about)})"
        case "Uppy":
            return f"(async () => {{ {uppy(url, person)}; return uploaded }})()"
        case _:
            return f"examples.json.upload(chosen(), {options(url, person)}).then((document) => document.id)"


async def check(ingest: Ingest, person: Person, document_id: str, chosen: Chosen) -> None:
    """The document is the chosen file, to the byte, and the only one."""
    _, page = await ingest.call(person, "GET", "/v1/documents")
    [document] = page["items"]
    assert (document["id"], document["name"]) == (document_id, chosen.path.name)
    url = f"{ingest.url}/v1/documents/{document_id}/content"
    async with ingest.session.get(url, headers=person.headers) as response:
        assert response.content_type == "application/pdf"
        assert hashlib.sha256(await response.read()).hexdigest() == chosen.digest


def sent_again(line: FaultyLine) -> int:
    """How many bytes went over the line more than once, if heads of requests were as large as may be."""
    assert line.faults == [], "all of them happened"
    return max(0, line.taken - SIZE - HEADERS)


@ALL
async def test_a_file_goes_up_in_chunks(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    async with run_faulty_line(open_ingest.url) as line:
        document_id = await page.run(upload(client, line.url, editor))

    await check(open_ingest, editor, document_id, chosen)
    assert sent_again(line) == 0


@ALL
async def test_it_goes_on_over_a_line_that_breaks(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    faults = [Fault(MIB // 2, "reset"), Fault(3 * MIB + 7, "stall"), Fault(5 * MIB, "swallow")]
    async with run_faulty_line(open_ingest.url, *faults) as line:
        document_id = await page.run(upload(client, line.url, editor))

    await check(open_ingest, editor, document_id, chosen)
    # Over a line that is kept from before Chromium sends the broken request again itself, and tus answers it with 409.
    # Then the client asks for the offset, and sends what is missing.
    assert sent_again(line) <= len(faults) * 2 * CHUNK


@THAT_REMEMBER
async def test_it_asks_again_how_much_has_come_while_that_cannot_be_said(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, asked = TusUploads.look, 0

    async def look_at_last(uploads: TusUploads, user: User, session_id: UUID) -> Session:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise asyncpg.CannotConnectNowError("the database system is starting up")
        return await look(uploads, user, session_id)

    monkeypatch.setattr(TusUploads, "look", look_at_last)
    async with run_faulty_line(open_ingest.url, Fault(4 * MIB + MIB // 2, "reset")) as line:
        document_id = await page.run(upload(client, line.url, editor))

    await check(open_ingest, editor, document_id, chosen)
    assert asked >= 3
    assert sent_again(line) <= 2 * CHUNK


@THAT_REMEMBER
async def test_it_goes_on_after_the_page_was_loaded_anew(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    async with run_faulty_line(open_ingest.url, Fault(3 * MIB + MIB // 2, "hang")) as line:
        await page.run(f"void {upload(client, line.url, editor)}")
        await eventually(line.is_faultless)

        await page.reload()
        await page.choose("input", chosen.path)
        document_id = await page.run(upload(client, line.url, editor))

    await check(open_ingest, editor, document_id, chosen)
    assert sent_again(line) <= CHUNK


@THAT_REMEMBER
async def test_it_begins_anew_if_the_upload_is_gone_when_the_page_is_loaded_anew(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    async with run_faulty_line(open_ingest.url, Fault(3 * MIB, "hang")) as line:
        await page.run(f"void {upload(client, line.url, editor)}")
        await eventually(line.is_faultless)
        await page.reload()
        remembered = json.loads(await page.run("localStorage.getItem(localStorage.key(0))"))
        path = remembered["uploadUrl"].removeprefix(line.url)
        assert (await open_ingest.call(editor, "DELETE", path, headers=VERSION))[0] == 204

        await page.choose("input", chosen.path)
        document_id = await page.run(upload(client, line.url, editor))

    await check(open_ingest, editor, document_id, chosen)


@ALL
async def test_the_same_file_again_is_another_upload(
    client: str, open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    first = await page.run(upload(client, open_ingest.url, editor))
    await open_ingest.call(editor, "DELETE", f"/v1/documents/{first}")

    second = await page.run(upload(client, open_ingest.url, editor))

    assert first != second
    await check(open_ingest, editor, second, chosen)
    assert await page.run("localStorage.length") == 0


async def test_uppy_goes_on_after_a_pause(open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen) -> None:
    async with run_faulty_line(open_ingest.url) as line:
        upload_url = await page.run(f"""(async () => {{
            {uppy(line.url, editor)}
            const paused = new Promise((resolve) => uppy.on('upload-progress', function pause(file, progress) {{
                if (progress.bytesUploaded < 2.5 * {CHUNK}) return
                uppy.off('upload-progress', pause)
                uppy.pauseAll()
                resolve()
            }}))
            await Promise.race([paused, uploaded])
            return uppy.getFiles()[0].tus.uploadUrl
        }})()""")
        offset = await offset_of(open_ingest, editor, upload_url)
        document_id = await page.run("(uppy.resumeAll(), uploaded)")

    assert 2 * CHUNK <= offset < SIZE, "it was paused in the middle"
    await check(open_ingest, editor, document_id, chosen)
    assert sent_again(line) <= CHUNK


async def test_uppy_goes_on_after_a_pause_while_it_waited_for_a_token(
    open_ingest: Ingest, editor: Person, page: Page, chosen: Chosen
) -> None:
    token = f"""async () => {{
        if (++asked === 3) await new Promise((resolve) => {{ give = resolve; isAsked() }})
        return {json.dumps(editor.token)}
    }}"""
    async with run_faulty_line(open_ingest.url) as line:
        upload_url = await page.run(f"""(async () => {{
            let asked = 0, isAsked, give
            const third = new Promise((resolve) => isAsked = resolve)
            {uppy(line.url, editor, token=token)}
            await Promise.race([third, uploaded])
            uppy.pauseAll()
            give()
            return uppy.getFiles()[0].tus.uploadUrl
        }})()""")
        offset = await offset_of(open_ingest, editor, upload_url)
        document_id = await page.run("(uppy.resumeAll(), uploaded)")

    assert offset == CHUNK
    await check(open_ingest, editor, document_id, chosen)
    assert sent_again(line) == 0


async def offset_of(ingest: Ingest, person: Person, upload_url: str) -> int:
    """How far an upload is."""
    path = "/files/" + upload_url.rpartition("/")[2]
    async with ingest.session.head(ingest.url + path, headers=person.headers | VERSION) as response:
        return int(response.headers["Upload-Offset"])
