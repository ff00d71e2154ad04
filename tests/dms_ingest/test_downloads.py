"""Downloads over HTTP: whole, in ranges, under conditions, by link; and what a client sees of damage."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import aiohttp
import pytest

from dms_ingest.revisions import SealedRevision, sealed_revision
from dms_ingest.views import downloads
from nexarch.db import Connection
from support.documents import add_document
from support.ingest import Ingest, Person, a_pdf, owner_database, sign_in_another, stored_folder, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database

Json = dict[str, Any]

SEGMENT = 262_144  # of an object; 32 bytes less of plaintext
HEADER = 82


def content_path(document: Json) -> str:
    return f"/v1/documents/{document['id']}/content"


def object_file(ingest: Ingest, person: Person, document: Json) -> Path:
    revision = document["current_revision"]["id"]
    return stored_folder(ingest.settings, person) / f"documents/{document['id']}/revisions/{revision}"


class Answer:
    """A response that was read to its end."""

    def __init__(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = body


async def fetch(
    ingest: Ingest, person: Person | None, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> Answer:
    all_headers = ({} if person is None else person.headers) | (headers or {})
    async with ingest.session.request(method, ingest.url + path, headers=all_headers) as response:
        return Answer(response, await response.read())


async def test_a_download_is_what_was_uploaded_whatever_its_size(ingest: Ingest, editor: Person) -> None:
    for size in [15, SEGMENT - 32, SEGMENT - 31, 3_000_001]:
        content = a_pdf(size)
        document = await ingest.upload(editor, content)

        answer = await fetch(ingest, editor, content_path(document))

        assert (answer.status, answer.body) == (200, content)
        assert answer.headers["Content-Length"] == str(size)


async def test_a_download_says_what_it_is_and_runs_nothing(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content, filename="Prüfbericht №7.pdf")

    answer = await fetch(ingest, editor, content_path(document))

    assert answer.headers["Content-Type"] == "application/pdf"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "private, no-cache"
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="Prufbericht No7.pdf"; filename*=')
    assert unquote(disposition.partition("UTF-8''")[2]) == "Prüfbericht №7.pdf"


async def test_each_revision_is_downloaded_by_its_number(ingest: Ingest, editor: Person) -> None:
    first, second = a_pdf(100), a_pdf(200)
    document = await ingest.upload(editor, first)
    await ingest.upload(editor, second, document_id=document["id"])
    path = f"/v1/documents/{document['id']}"

    assert (await fetch(ingest, editor, f"{path}/content")).body == second
    assert (await fetch(ingest, editor, f"{path}/revisions/1/content")).body == first
    assert (await fetch(ingest, editor, f"{path}/revisions/2/content")).body == second
    for number in ["0", "3", "-1", "1.0", "x", "٢", "99999999999999999999", "%00"]:
        assert (await fetch(ingest, editor, f"{path}/revisions/{number}/content")).status == 404, number


async def test_a_range_is_cut_out_of_the_right_place(ingest: Ingest, editor: Person) -> None:
    size = 1_000_000
    content = a_pdf(size)
    document = await ingest.upload(editor, content)
    edge = SEGMENT - 32
    ranges = [
        ("0-0", 0, 1),
        (f"{edge - 1}-{edge}", edge - 1, edge + 1),
        (f"{edge}-{2 * edge - 1}", edge, 2 * edge),
        (f"{size - 1}-", size - 1, size),
        ("-10", size - 10, size),
        ("700000-9999999", 700_000, size),
    ]
    for asked, start, stop in ranges:
        answer = await fetch(ingest, editor, content_path(document), {"Range": f"bytes={asked}"})

        assert (answer.status, answer.body) == (206, content[start:stop]), asked
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{size}"
        assert answer.headers["Content-Length"] == str(stop - start)


async def test_a_range_behind_the_end_names_the_size(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))

    answer = await fetch(ingest, editor, content_path(document), {"Range": "bytes=100-"})

    assert answer.status == 416
    assert answer.headers["Content-Range"] == "bytes */100"
    assert answer.headers["Content-Type"].startswith("application/problem+json")


async def test_several_ranges_are_answered_with_the_whole(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content)

    for asked in ["bytes=0-1,5-6", "bytes=x", "lines=1-2"]:
        answer = await fetch(ingest, editor, content_path(document), {"Range": asked})
        assert (answer.status, answer.body) == (200, content), asked


async def test_a_download_goes_on_only_in_the_same_file(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content)
    path = content_path(document)
    whole = await fetch(ingest, editor, path)
    part = {"Range": "bytes=50-"}

    for condition, status in [
        (whole.headers["ETag"], 206),
        (whole.headers["Last-Modified"], 206),
        ('"other"', 200),
        ("W/" + whole.headers["ETag"], 200),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 200),
        ("", 200),
    ]:
        answer = await fetch(ingest, editor, path, part | {"If-Range": condition})
        assert answer.status == status, condition
        assert answer.body == content[50 if status == 206 else 0 :]


async def test_who_has_the_file_is_not_sent_it_again(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    path = content_path(document)
    whole = await fetch(ingest, editor, path)
    etag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    old = "Mon, 01 Jan 2001 00:00:00 GMT"

    for headers, status in [
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": f'"a", W/{etag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"a"'}, 200),
        ({"If-None-Match": '"a"', "If-Modified-Since": modified}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": old}, 200),
        ({"If-Modified-Since": "gestern"}, 200),
        ({"If-Match": etag}, 200),
        ({"If-Match": '"a"'}, 412),
        ({"If-Match": f"W/{etag}"}, 412),
        ({"If-Unmodified-Since": old}, 412),
        ({"If-Unmodified-Since": modified}, 200),
    ]:
        answer = await fetch(ingest, editor, path, headers)
        assert answer.status == status, headers
        assert answer.headers["ETag"] == etag
        assert bool(answer.body) == (status == 200)


async def test_head_tells_the_size_without_opening_anything(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    object_file(ingest, editor, document).unlink()

    answer = await fetch(ingest, editor, content_path(document), {"Range": "bytes=0-1"}, method="HEAD")

    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "100", b"")


def flip(position: int) -> Callable[[bytearray], None]:
    def damage(content: bytearray) -> None:
        content[position] ^= 1

    return damage


def cut(size: int) -> Callable[[bytearray], None]:
    def damage(content: bytearray) -> None:
        del content[-size:]

    return damage


def swap_segments(content: bytearray) -> None:
    a, b = slice(HEADER, HEADER + SEGMENT), slice(HEADER + SEGMENT, HEADER + 2 * SEGMENT)
    content[a], content[b] = content[b], content[a]


DAMAGES: dict[str, Callable[[bytearray], None]] = {
    "prefix": flip(0),
    "iv": flip(20),
    "first segment": flip(HEADER + 100),
    "swapped segments": swap_segments,
    "last byte missing": cut(1),
    "last segment missing": cut(SEGMENT),
    "one byte more": lambda content: content.extend(b"x"),
    "empty": bytearray.clear,
}


async def test_damage_that_shows_at_once_is_a_problem_without_a_byte(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(3 * (SEGMENT - 32)))
    file = object_file(ingest, editor, document)
    whole = file.read_bytes()

    for name, damage in DAMAGES.items():
        content = bytearray(whole)
        damage(content)
        file.write_bytes(content)
        for headers in [{}, {"Range": "bytes=0-9"}]:
            answer = await fetch(ingest, editor, content_path(document), headers)

            assert answer.status == 500, name
            assert b"/problems/object-damaged" in answer.body, name


async def test_damage_further_on_breaks_the_transfer(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(6_000_000)
    document = await ingest.upload(editor, content)
    file = object_file(ingest, editor, document)
    sealed = bytearray(file.read_bytes())
    sealed[-1] ^= 1
    file.write_bytes(sealed)

    received = bytearray()
    async with ingest.session.get(ingest.url + content_path(document), headers=editor.headers) as response:
        assert (response.status, response.content_length) == (200, len(content))
        with pytest.raises(aiohttp.ClientPayloadError):
            await read_into(received, response)

    assert 0 < len(received) < len(content)
    assert content.startswith(received)


async def read_into(received: bytearray, response: aiohttp.ClientResponse) -> None:
    async for chunk in response.content.iter_any():
        received += chunk


async def test_a_range_before_the_damage_is_still_good(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(2_000_000)
    document = await ingest.upload(editor, content)
    file = object_file(ingest, editor, document)
    sealed = bytearray(file.read_bytes())
    sealed[-1] ^= 1
    file.write_bytes(sealed)

    answer = await fetch(ingest, editor, content_path(document), {"Range": "bytes=0-999"})

    assert (answer.status, answer.body) == (206, content[:1000])


async def test_objects_and_keys_do_not_open_in_another_place(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    one, other = await ingest.upload(editor, a_pdf(100)), await ingest.upload(editor, a_pdf(100))
    files = [object_file(ingest, editor, document) for document in (one, other)]
    contents = [file.read_bytes() for file in files]
    files[0].write_bytes(contents[1])
    files[1].write_bytes(contents[0])

    swapped_object = await fetch(ingest, editor, content_path(one))
    async with tenant_database(core_api, editor) as conn:
        await conn.execute(
            "UPDATE file_revisions AS r SET wrapped_dek = o.wrapped_dek FROM file_revisions AS o WHERE o.id <> r.id"
        )
    swapped_keys = await fetch(ingest, editor, content_path(one))

    assert (swapped_object.status, swapped_keys.status) == (500, 500)
    assert b"/problems/object-damaged" in swapped_object.body
    assert b"/problems/seal-broken" in swapped_keys.body


async def test_a_missing_object_or_key_is_a_clear_problem(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))

    async with owner_database(core_api, editor) as conn:
        await conn.execute("INSERT INTO kek_versions (version) VALUES (99)")
        await conn.execute("UPDATE file_revisions SET kek_version = 99")
        no_key = await fetch(ingest, editor, content_path(document))
        await conn.execute("UPDATE file_revisions SET kek_version = 1")
    object_file(ingest, editor, document).unlink()
    no_object = await fetch(ingest, editor, content_path(document))

    assert (no_key.status, no_object.status) == (500, 500)
    assert b"/problems/key-missing" in no_key.body
    assert b"/problems/object-missing" in no_object.body


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


async def test_a_date_that_no_clock_shows_is_no_condition(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    for header in ["If-Modified-Since", "If-Unmodified-Since"]:
        for date in ["Sun, 06 Nov 9999999999 08:49:37 GMT", "Mon, 99 Foo 99999 99:99:99 GMT", "yesterday"]:
            answer = await fetch(ingest, editor, content_path(document), {header: date})

            assert answer.status == 200, (header, date)


async def test_a_download_that_meets_a_removal_for_good_finds_nothing(
    core_api: CoreApi, ingest: Ingest, editor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    admin = await sign_in_another(core_api, editor.tenant, email="admin@example.org", role="admin")
    read = sealed_revision

    async def read_and_lose(conn: Connection, document_id: UUID, number: int | None) -> SealedRevision:
        """The row is read; before the object is opened, somebody else removes both."""
        revision = await read(conn, document_id, number)
        monkeypatch.setattr(downloads, "sealed_revision", read)
        await ingest.call(admin, "DELETE", f"/v1/documents/{document_id}")
        await ingest.call(admin, "POST", f"/v1/documents/{document_id}/purge")
        return revision

    monkeypatch.setattr(downloads, "sealed_revision", read_and_lose)

    answer = await fetch(ingest, editor, content_path(document))

    assert answer.status == 404
    assert b"/problems/revision-not-found" in answer.body


async def test_head_of_a_text_has_no_body(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    async with tenant_database(core_api, editor) as conn:
        document_id = await add_document(conn, editor.tenant.user_id, text="a text")
    url = urlsplit(ingest.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)

    writer.write(f"HEAD /v1/documents/{document_id}/text HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode())
    writer.write(f"Authorization: Bearer {editor.token}\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""
