"""Signed links over HTTP: what ends them, and what a link's maker could try with a key in hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from pydantic import SecretStr

from dms_ingest.links import Link, LinkKey, link_url
from support.ingest import PDF, Ingest, Person, ingest_settings, run_ingest, sign_in_another, stored_files
from support.services import CoreApi
from support.waiting import eventually

pytestmark = pytest.mark.database

Json = dict[str, Any]
OLD, NEW = "o" * 32, "n" * 40


async def make_link(ingest: Ingest, person: Person, document: Json) -> str:
    path = f"/v1/documents/{document['id']}/links"
    status, link = await ingest.call(person, "POST", path, json={"expires_in": 60})
    assert status == 201, link
    url: str = link["url"]
    return url


async def follow(ingest: Ingest, url: str) -> tuple[int, str]:
    """Status, and the body as text."""
    async with ingest.session.get(ingest.url + url) as response:
        return response.status, (await response.read()).decode("latin-1")


async def revoke(ingest: Ingest, person: Person, document: Json) -> int:
    status, _ = await ingest.call(person, "POST", f"/v1/documents/{document['id']}/links/revoke")
    return status


async def test_revoking_ends_all_links_to_a_document_and_none_to_another(ingest: Ingest, editor: Person) -> None:
    document, other = [await ingest.upload(editor, PDF + name) for name in (b"one", b"two")]
    links = [await make_link(ingest, editor, document) for _ in range(2)]
    elsewhere = await make_link(ingest, editor, other)

    revoked = await revoke(ingest, editor, document)

    assert revoked == 204
    for link in links:
        status, body = await follow(ingest, link)
        assert (status, "/problems/link-refused" in body) == (403, True)
    assert (await follow(ingest, elsewhere))[0] == 200
    assert (await follow(ingest, await make_link(ingest, editor, document)))[0] == 200


async def test_revoking_changes_nothing_else_and_viewers_may_not(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)
    viewer = await sign_in_another(core_api, editor.tenant, email="v@example.org", role="viewer")
    _, before = await ingest.call(editor, "GET", f"/v1/documents/{document['id']}")

    by_viewer = await revoke(ingest, viewer, document)
    by_editor = await revoke(ingest, editor, document)

    _, after = await ingest.call(editor, "GET", f"/v1/documents/{document['id']}")
    assert (by_viewer, by_editor) == (403, 204)
    assert after == before


@pytest.mark.parametrize(
    ("secrets", "status"),
    [([OLD], 200), ([NEW, OLD], 200), ([OLD, NEW], 200), ([NEW], 403)],
    ids=["before", "during", "the other replica during", "after"],
)
async def test_a_key_is_replaced_without_breaking_links_as_long_as_the_old_one_is_listed(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path, editor: Person, secrets: Sequence[str], status: int
) -> None:
    async with run_ingest(ingest_settings(core_api, bus_dsn, tmp_path, link_key=SecretStr(OLD))) as before:
        document = await before.upload(editor, PDF)
        link = await make_link(before, editor, document)

    settings = ingest_settings(core_api, bus_dsn, tmp_path, link_key=SecretStr("\n".join(secrets)))
    async with run_ingest(settings) as after:
        assert (await follow(after, link))[0] == status
        assert f"k={LinkKey.from_secret(secrets[0]).id}" in await make_link(after, editor, document)


async def test_a_suspended_tenants_links_end_and_come_back_with_it(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    link = await make_link(ingest, editor, await ingest.upload(editor, PDF))
    tenant = f"/v1/tenants/{editor.tenant.slug}"

    await core_api.call("POST", f"{tenant}/suspend")
    at_once, body = await follow(ingest, link)
    assert at_once in {403, 503}  # 503 where core-api ends the tenant's sessions just then
    assert PDF.decode("latin-1") not in body
    await eventually(partial(answers, ingest, link, 403))

    await core_api.call("POST", f"{tenant}/resume")
    await eventually(partial(answers, ingest, link, 200))


async def answers(ingest: Ingest, link: str, status: int) -> bool:
    return (await follow(ingest, link))[0] == status


async def test_a_link_to_a_document_in_the_trash_finds_nothing_until_it_is_restored(
    ingest: Ingest, editor: Person
) -> None:
    document = await ingest.upload(editor, PDF)
    link = await make_link(ingest, editor, document)
    await ingest.call(editor, "DELETE", f"/v1/documents/{document['id']}")

    in_trash = (await follow(ingest, link))[0]
    revoked = await revoke(ingest, editor, document)
    await ingest.call(editor, "POST", f"/v1/documents/{document['id']}/restore")
    restored = (await follow(ingest, link))[0]

    assert (in_trash, revoked, restored) == (404, 404, 200)


def forged(person: Person, document: Json, **changes: Any) -> str:  # noqa: ANN401
    """A link as one would make it who has our key."""
    now = datetime.now(UTC)
    given: Json = {
        "method": "GET",
        "tenant": person.tenant.slug,
        "document_id": UUID(document["id"]),
        "revision": 1,
        "disposition": "attachment",
        "name": "a.pdf",
        "epoch": 0,
        "not_before": now,
        "expires_at": now + timedelta(hours=1),
    }
    return link_url(Link(**given | changes), LinkKey.from_secret("k" * 32))


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x=1", 'a"; filename="b.html', "\u202efdp.exe", "ä" * 300, "\x00"])
async def test_a_name_never_becomes_a_header(ingest: Ingest, editor: Person, name: str) -> None:
    document = await ingest.upload(editor, PDF)

    async with ingest.session.get(ingest.url + forged(editor, document, name=name)) as response:
        headers = response.headers

    assert "Set-Cookie" not in headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    if response.status == 200:
        (disposition,) = headers.getall("Content-Disposition")
        assert disposition.startswith("attachment;")
        assert disposition.isascii()
        assert disposition.isprintable()


async def test_a_signed_link_that_lives_too_long_or_begins_later_is_refused(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    now = datetime.now(UTC)

    refused: list[Json] = [
        {"expires_at": now + timedelta(days=8)},
        {"expires_at": now + timedelta(days=365_000)},
        {"not_before": now + timedelta(minutes=5)},
        {"not_before": now - timedelta(hours=1), "expires_at": now - timedelta(seconds=1)},
    ]
    for times in refused:
        assert (await follow(ingest, forged(editor, document, **times)))[0] == 403, times
    assert (await follow(ingest, forged(editor, document)))[0] == 200


async def test_a_signed_link_opens_no_other_tenants_document(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    stranger = await core_api.create_tenant()

    elsewhere: list[Json] = [
        {"tenant": stranger.slug},
        {"tenant": "nobody_here"},
        {"revision": 2},
        {"document_id": UUID(int=1)},
    ]
    for changes in elsewhere:
        assert (await follow(ingest, forged(editor, document, **changes)))[0] in {403, 404}, changes


async def test_damage_behind_a_link_breaks_the_transfer(ingest: Ingest, editor: Person) -> None:
    content = PDF + bytes(6_000_000)
    document = await ingest.upload(editor, content)
    link = await make_link(ingest, editor, document)
    (file,) = stored_files(ingest.settings, editor)
    sealed = bytearray(file.read_bytes())
    sealed[-1] ^= 1
    file.write_bytes(sealed)

    async with ingest.session.get(ingest.url + link) as response:
        assert (response.status, response.content_length) == (200, len(content))
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
