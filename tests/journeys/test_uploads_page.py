"""docs/uploads.md is true: its examples upload files as they are written."""

import asyncio
import hashlib
import re
from pathlib import Path

import pytest

from support import js_clients
from support.files import write_pdf
from support.ingest import Ingest, Person
from support.uploads_page import PAGE, example

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("npm_packages")]

ROOT = Path(__file__).parents[2]


async def run_shell(ingest: Ingest, person: Person, commands: str) -> list[str]:
    """The lines that commands of the page print, for this person and this dms-ingest."""
    commands = commands.replace("http://127.0.0.1:8081", ingest.url)
    commands = commands.replace("$(.venv/bin/nexarch token)", person.token)
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", commands,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(60):
        output = (await shell.communicate())[0].decode()
    assert shell.returncode == 0, output
    return output.splitlines()


async def digest_of(ingest: Ingest, person: Person, document_id: str) -> tuple[str, str]:
    """Name and SHA-256 of a document."""
    status, document = await ingest.call(person, "GET", f"/v1/documents/{document_id}")
    assert status == 200, document
    return document["name"], document["current_revision"]["sha256"]


README = ("README.md", hashlib.sha256((ROOT / "README.md").read_bytes()).hexdigest())


async def test_the_json_face_with_curl(ingest: Ingest, editor: Person) -> None:
    received, missing, document_id = await run_shell(ingest, editor, example("The JSON face, with curl", "sh"))

    assert (received, missing) == ("[{'start': 0, 'end': 1000}]", "[]")
    assert await digest_of(ingest, editor, document_id) == README


async def test_tus_with_curl(ingest: Ingest, editor: Person) -> None:
    offset, document_id = await run_shell(ingest, editor, example("tus, with curl", "sh"))

    assert offset == "1000"
    assert await digest_of(ingest, editor, document_id) == README


async def run_module(folder: Path, module: str, driver: str) -> str:
    """What a program prints that imports a module of the page, beside the packages of the tests."""
    (folder / "node_modules").symlink_to(js_clients.CLIENTS / "node_modules")
    (folder / "uploads.mjs").write_text(module)
    (folder / "main.mjs").write_text(driver)
    return (await js_clients.run_node(folder / "main.mjs")).strip()


async def test_tus_js_client(ingest: Ingest, editor: Person, tmp_path: Path) -> None:
    digest = write_pdf(tmp_path / "a.pdf", 300_000)
    driver = f"""
        import {{ createReadStream }} from 'node:fs'
        import {{ upload }} from './uploads.mjs'
        const options = {{ ingest: '{ingest.url}', token: async () => '{editor.token}', chunkSize: 100_000 }}
        const file = createReadStream('{tmp_path}/a.pdf')
        console.log(await upload(file, {{ ...options, filename: 'Ä.pdf', filetype: 'application/pdf' }}))
    """

    document_id = await run_module(tmp_path, example("tus-js-client", "js"), driver)

    assert await digest_of(ingest, editor, document_id) == ("Ä.pdf", digest)


async def test_uppy(ingest: Ingest, editor: Person, tmp_path: Path) -> None:
    _, folder = await ingest.call(editor, "POST", "/v1/folders", json={"name": "Akten"})
    digest = write_pdf(tmp_path / "a.pdf", 300_000)
    driver = f"""
        import {{ readFileSync }} from 'node:fs'
        import {{ uploader }} from './uploads.mjs'
        const options = {{ ingest: '{ingest.url}', token: async () => '{editor.token}', chunkSize: 100_000 }}
        const uppy = uploader({{ ...options, uploaded: (file, documentId) => console.log(documentId) }})
        const data = readFileSync('{tmp_path}/a.pdf')
        data.size = data.length
        const meta = {{ folder_id: '{folder["id"]}', sha256: '{digest}' }}
        uppy.addFile({{ name: 'Ä.pdf', type: 'application/pdf', data, meta }})
        const {{ failed }} = await uppy.upload()
        if (failed.length > 0) throw new Error(failed[0].error)
    """

    document_id = await run_module(tmp_path, example("Uppy", "js"), driver)

    assert await digest_of(ingest, editor, document_id) == ("Ä.pdf", digest)
    _, document = await ingest.call(editor, "GET", f"/v1/documents/{document_id}")
    assert document["folder_id"] == folder["id"]


def test_every_code_of_the_page_is_a_problem_that_exists() -> None:
    rows = PAGE.split("## Errors\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", rows))

    known = set(re.findall(r"`/problems/([a-z-]+)`", (ROOT / "docs" / "problems.md").read_text()))

    assert len(named) > 10
    assert named <= known
