"""Downloads by signed link: without a token, and not when anything of it was touched."""

from typing import Any
from urllib.parse import unquote

import pytest

from support.fetching import fetch, object_file
from support.ingest import Ingest, Person, a_pdf
from support.services import CoreApi

pytestmark = pytest.mark.database


async def test_a_link_gives_out_its_revision_without_a_token(ingest: Ingest, editor: Person) -> None:
    first, second = a_pdf(100), a_pdf(200)
    document = await ingest.upload(editor, first, filename="Müller & Söhne.pdf")
    status, link = await ingest.call(
        editor, "POST", f"/v1/documents/{document['id']}/links", json={"expires_in": 60, "disposition": "inline"}
    )
    assert status == 201, link
    await ingest.upload(editor, second, document_id=document["id"])

    answer = await fetch(ingest, None, link["url"])
    part = await fetch(ingest, None, link["url"], {"Range": "bytes=0-4"})

    assert (answer.status, answer.body) == (200, first)
    assert (part.status, part.body) == (206, b"%PDF-")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert answer.headers["Content-Disposition"].startswith("inline;")
    assert unquote(answer.headers["Content-Disposition"].partition("UTF-8''")[2]) == "Müller & Söhne.pdf"


async def test_a_link_that_was_touched_is_refused_without_a_reason(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    other = await ingest.upload(editor, a_pdf(100))
    _, link = await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/links", json={"expires_in": 60})
    url = link["url"]
    path, _, query = url.partition("?")
    stranger = (await core_api.create_tenant()).slug

    details = set()
    for method, wrong in [
        ("HEAD", url),
        ("GET", url + "&exp=1"),
        ("GET", url + "&x"),
        ("GET", url.replace("d=attachment", "d=inline")),
        ("GET", url.replace("&e=0", "&e=1")),
        ("GET", url.replace(document["id"], other["id"])),
        ("GET", url.replace(f"/{editor.tenant.slug}/", f"/{stranger}/")),
        ("GET", url.replace("/1?", "/2?")),
        ("GET", url.replace("/1?", "/%31%00?")),
        ("GET", url + "%00"),
        ("GET", url + "%FF%ED%A0%80"),
        ("GET", url + "A" * 7000),
        ("GET", "/v1/links/x/y/z?" + query),
    ]:
        answer = await fetch(ingest, None, wrong, method=method)

        assert answer.status == 403, wrong
        if method == "GET":
            assert b"/problems/link-refused" in answer.body
            details.add(answer.body.partition(b'"detail"')[2].partition(b'"instance"')[0])
    assert len(details) == 1
    # No token makes up for a signature, not even that of a person who may see the document.
    assert (await fetch(ingest, editor, url.replace("d=attachment", "d=inline"))).status == 403
    for unsigned in [path, f"{path}?", path + "?" + query.partition("&sig=")[0]]:
        for person in (None, editor):
            answer = await fetch(ingest, person, unsigned)
            assert answer.status == 401, unsigned
    for wrong in [
        path + "/?" + query,
        "/v1/links/" + "..%2f" * 3 + "?" + query,
        path.replace("/v1/links", "/v1/links/"),
    ]:
        assert (await fetch(ingest, None, wrong)).status in {403, 404}, wrong


async def test_a_link_stands_in_no_log_line_and_no_problem(
    ingest: Ingest, editor: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    _, link = await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/links", json={"expires_in": 60})
    signature = link["url"].partition("sig=")[2]
    object_file(ingest, editor, document).unlink()

    failed = await fetch(ingest, None, link["url"])
    refused = await fetch(ingest, None, link["url"] + "x")

    assert (failed.status, refused.status) == (500, 403)
    logged = capsys.readouterr().out
    assert "object-missing" in logged
    assert "/v1/links/{tenant}/{document}/{revision}" in logged
    for text in [logged, failed.body.decode(), refused.body.decode()]:
        assert signature not in text


async def test_a_link_ends_with_its_document(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    path = f"/v1/documents/{document['id']}"
    _, link = await ingest.call(editor, "POST", f"{path}/links", json={"expires_in": 60})

    await ingest.call(editor, "DELETE", path)

    assert (await fetch(ingest, None, link["url"])).status == 404


async def test_a_link_that_makes_no_sense_is_not_made(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    bodies: list[dict[str, Any]] = [
        {},
        {"expires_in": 0},
        {"expires_in": 7 * 86400 + 1},
        {"expires_in": 10**18},
        {"expires_in": 60, "disposition": "execute"},
        {"expires_in": 60, "revision": 0},
        {"expires_in": 60, "revision": 2**31},
    ]
    for body in bodies:
        status, _ = await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/links", json=body)

        assert status == 422, body
