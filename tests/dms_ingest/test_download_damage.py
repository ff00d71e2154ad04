"""What a client sees of a damaged object: a problem before the first byte, a broken transfer after it."""

from collections.abc import Callable

import aiohttp
import pytest

from support.fetching import content_path, fetch, object_file
from support.ingest import Ingest, Person, a_pdf, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database

SEGMENT = 262_144  # of an object; 32 bytes less of plaintext
HEADER = 82


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
