"""Every kind of damage to a stored object or to its row, as who downloads it sees it: never a body that looks whole."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.ingest import PDF, Ingest, Person, sign_in, stored_files, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database

Json = dict[str, Any]

HEADER, SEGMENT = 82, 262_144
PLAINTEXT = SEGMENT - 32
SEGMENTS = 24  # so many that the last ones are read when the first have long been sent


def segments(stored: bytes) -> tuple[bytes, list[bytes]]:
    """The header, and the segments."""
    return stored[:HEADER], [stored[at : at + SEGMENT] for at in range(HEADER, len(stored), SEGMENT)]


def arranged(order: Callable[[list[int]], Sequence[int]]) -> Callable[[bytes, bytes], bytes]:
    """The object with its segments in another order."""

    def damage(stored: bytes, _other: bytes) -> bytes:
        header, parts = segments(stored)
        return header + b"".join(parts[number] for number in order(list(range(len(parts)))))

    return damage


def flipped(place: int) -> Callable[[bytes, bytes], bytes]:
    """The object with one bit flipped."""

    def damage(stored: bytes, _other: bytes) -> bytes:
        content = bytearray(stored)
        content[place] ^= 0x10
        return bytes(content)

    return damage


def last_of_another(stored: bytes, other: bytes) -> bytes:
    header, parts = segments(stored)
    return header + b"".join(parts[:-1]) + segments(other)[1][-1]


def middle_of_another(stored: bytes, other: bytes) -> bytes:
    header, parts = segments(stored)
    return header + b"".join([*parts[:-3], segments(other)[1][-3], *parts[-2:]])


def ends_early(stored: bytes, _other: bytes) -> bytes:
    """Cut, and the segment that is the last one now says so."""
    header, parts = segments(stored)
    return header + b"".join(parts[:-2]) + SEGMENT.to_bytes(4, "big") + parts[-2][4:]


KINDS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a bit of the prefix": flipped(0),
    "a bit of the parameters": flipped(10),
    "a bit of the IV": flipped(20),
    "a bit of the header tag": flipped(60),
    "a bit of the first marker": flipped(HEADER),
    "a bit of the first nonce": flipped(HEADER + 5),
    "a bit of the first ciphertext": flipped(HEADER + 1000),
    "a bit of the last marker": flipped(HEADER + (SEGMENTS - 1) * SEGMENT + 3),
    "a bit of the last nonce": flipped(HEADER + (SEGMENTS - 1) * SEGMENT + 5),
    "a bit of the last ciphertext": flipped(HEADER + (SEGMENTS - 1) * SEGMENT + 100),
    "a bit of the last tag": flipped(-1),
    "one byte cut": lambda stored, _: stored[:-1],
    "the last segment cut": arranged(lambda numbers: numbers[:-1]),
    "the last segment cut and the one before marked as last": ends_early,
    "all cut but the header": lambda stored, _: stored[:HEADER],
    "all cut": lambda _stored, _other: b"",
    "the first segments swapped": arranged(lambda numbers: [1, 0, *numbers[2:]]),
    "late segments swapped": arranged(lambda numbers: [*numbers[:-3], numbers[-2], numbers[-3], numbers[-1]]),
    "a late segment dropped": arranged(lambda numbers: [*numbers[:-3], *numbers[-2:]]),
    "a late segment repeated": arranged(lambda numbers: [*numbers[:-2], numbers[-2], *numbers[-2:]]),
    "a late segment replaced by the one before": arranged(lambda n: [*n[:-2], n[-3], n[-1]]),
    "the last segment repeated": arranged(lambda numbers: [*numbers, numbers[-1]]),
    "a segment appended": arranged(lambda numbers: [*numbers, 0]),
    "a byte appended": lambda stored, _: stored + b"x",
    "the header of another object": lambda stored, other: other[:HEADER] + stored[HEADER:],
    "the last segment of another object": last_of_another,
    "a late segment of another object": middle_of_another,
    "another object": lambda _, other: other,
}


class Outcome:
    """What a client got: a problem's code, or some bytes and whether the transfer broke."""

    def __init__(self, status: int, body: bytes, *, code: str = "", broken: bool = False) -> None:
        self.status = status
        self.body = body
        self.code = code
        self.broken = broken


async def download(ingest: Ingest, person: Person, document: Json, **headers: str) -> Outcome:
    """Get the document's content, up to where it breaks."""
    url = f"{ingest.url}/v1/documents/{document['id']}/content"
    async with ingest.session.get(url, headers=person.headers | headers) as response:
        if response.status >= 400:
            problem = await response.json(content_type=None)
            return Outcome(response.status, b"", code=problem["type"].removeprefix("/problems/"))
        body = bytearray()
        try:
            async for chunk in response.content.iter_any():
                body += chunk
        except aiohttp.ClientPayloadError:
            return Outcome(response.status, bytes(body), broken=True)
        return Outcome(response.status, bytes(body))


def object_of(ingest: Ingest, person: Person, document: Json) -> Path:
    (file,) = (file for file in stored_files(ingest.settings, person) if document["id"] in str(file))
    return file


async def test_no_kind_of_damage_gives_a_body_that_looks_whole(ingest: Ingest, editor: Person) -> None:
    content = PDF + os.urandom(SEGMENTS * PLAINTEXT - 500 - len(PDF))
    document = await ingest.upload(editor, content)
    other = await ingest.upload(editor, PDF + os.urandom(len(content) - len(PDF)))
    file = object_of(ingest, editor, document)
    whole, foreign = file.read_bytes(), object_of(ingest, editor, other).read_bytes()
    assert len(segments(whole)[1]) == SEGMENTS
    late = f"bytes={len(content) - 10}-"

    outcomes = {}
    for kind, damage in KINDS.items():
        file.write_bytes(damage(whole, foreign))
        outcomes[kind] = [
            await download(ingest, editor, document),
            await download(ingest, editor, document, Range=late),
        ]
    file.write_bytes(whole)
    good = await download(ingest, editor, document)

    for kind, (full, _) in outcomes.items():
        assert full.broken or (full.status, full.code) == (500, "object-damaged"), kind
        assert content.startswith(full.body), kind
        assert len(full.body) < len(content), kind
    for kind, (_, part) in outcomes.items():
        # A range past the damage is good if its own segments are; else it is refused, never wrong.
        assert part.code == "object-damaged" or part.broken or part.body == content[-10:], kind
    assert {kind for kind, (full, _) in outcomes.items() if full.broken} >= {
        "a bit of the last tag",
        "late segments swapped",
        "a late segment replaced by the one before",
        "the last segment of another object",
        "a late segment of another object",
    }
    assert (good.status, good.body == content, good.broken) == (200, True, False)


async def test_an_object_or_key_of_another_tenant_document_or_revision_does_not_open(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    content = PDF + os.urandom(1000)
    first = await ingest.upload(editor, content)
    second = await ingest.upload(editor, PDF + os.urandom(1000), document_id=first["id"])
    stranger = await sign_in(core_api)
    theirs = await ingest.upload(stranger, PDF + os.urandom(1000))
    by_revision = {file.name: file for file in stored_files(ingest.settings, editor)}
    old = by_revision[first["current_revision"]["id"]]
    new = by_revision[second["current_revision"]["id"]]
    good = new.read_bytes()

    async def with_object(stored: bytes) -> Outcome:
        new.write_bytes(stored)
        outcome = await download(ingest, editor, first)
        new.write_bytes(good)
        return outcome

    of_revision = await with_object(old.read_bytes())
    of_tenant = await with_object(object_of(ingest, stranger, theirs).read_bytes())
    async with tenant_database(core_api, stranger) as conn:
        their_key = await conn.fetchval("SELECT wrapped_dek FROM file_revisions")
    async with tenant_database(core_api, editor) as conn:
        sql = "UPDATE file_revisions SET wrapped_dek = $1 WHERE number = 2"
        own_key = await conn.fetchval("SELECT wrapped_dek FROM file_revisions WHERE number = 2")
        older_key = await conn.fetchval("SELECT wrapped_dek FROM file_revisions WHERE number = 1")
        keys = {}
        for name, key in {
            "revision": older_key,
            "tenant": their_key,
            "flipped": bytes([own_key[0] ^ 1]) + own_key[1:],
        }.items():
            await conn.execute(sql, key)
            keys[name] = await download(ingest, editor, first)
        # The other revision's key and its object together: the row is whole, but not this revision's.
        await conn.execute(sql, older_key)
        both = await with_object(old.read_bytes())
        await conn.execute(sql, own_key)
    restored = await download(ingest, editor, first)

    assert (of_revision.code, of_tenant.code) == ("object-damaged", "object-damaged")
    assert {name: outcome.code for name, outcome in keys.items()} == dict.fromkeys(keys, "seal-broken")
    assert both.code == "seal-broken"
    assert restored.status == 200


async def test_a_revision_whose_row_was_moved_to_another_document_does_not_open(
    core_api: CoreApi, ingest: Ingest, editor: Person
) -> None:
    secret = await ingest.upload(editor, PDF + os.urandom(1000))
    await ingest.upload(editor, PDF + os.urandom(1000), document_id=secret["id"])
    other = await ingest.upload(editor, PDF + os.urandom(1000))
    async with tenant_database(core_api, editor) as conn:
        sql = "UPDATE file_revisions SET document_id = $2, number = 2 WHERE id = $1"
        await conn.execute("DELETE FROM upload_sessions")  # they name their revisions' documents
        await conn.execute(sql, secret["current_revision"]["id"], other["id"])

    status, problem = await ingest.call(editor, "GET", f"/v1/documents/{other['id']}/revisions/2/content")

    assert (status, problem["type"]) == (500, "/problems/object-damaged")
