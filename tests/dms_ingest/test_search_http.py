"""The search over HTTP: any string is answered, and what is found is shown safely."""

import asyncio
import random
import string
import unicodedata
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from support.documents import set_state
from support.ingest import PDF, Ingest, Person, tenant_database
from support.services import CoreApi

pytestmark = pytest.mark.database


async def upload_with_text(core: CoreApi, ingest: Ingest, person: Person, text: str) -> dict[str, Any]:
    """A document that was processed, as the worker leaves it."""
    document: dict[str, Any] = await ingest.upload(person, PDF)
    async with tenant_database(core, person) as conn:
        await conn.fetchval("SELECT store_text($1, $2)", document["current_revision"]["id"], text)
        await set_state(conn, document["current_revision"]["id"], "processed")
    return document


async def search(ingest: Ingest, person: Person, query: str) -> list[Any]:
    status, page = await ingest.call(person, "GET", "/v1/search", params={"q": query})
    assert status == 200, page
    items: list[Any] = page["items"]
    return items


async def test_every_spelling_of_a_name_is_found_and_marked(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    document = await upload_with_text(core_api, ingest, editor, "Vertrag mit Herrn Müller <script>alert(1)</script>")

    for query in ["Müller", "Mueller", "MULLER", unicodedata.normalize("NFD", "Müller")]:
        [hit] = await search(ingest, editor, query)

        assert hit["document_id"] == document["id"]
        assert [part["text"] for part in hit["snippet"] if part["hit"]] == ["Müller"], query
        assert hit["rank"] > 0


async def test_results_come_in_pages_that_miss_nothing(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    made = [await upload_with_text(core_api, ingest, editor, "Vertrag " * n) for n in range(1, 6)]

    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        params = {"q": "Vertrag", "limit": "2"} | cursor
        status, page = await ingest.call(editor, "GET", "/v1/search", params=params)
        assert status == 200
        seen += [item["document_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert sorted(seen) == sorted(document["id"] for document in made)


ODD = [
    "",
    " ",
    "\0",
    "a\0b",
    "&",
    "|",
    "!",
    "<->",
    "a & | b",
    "!!!",
    "((((",
    "a:*",
    ":*",
    "'",
    "''''",
    "\\",
    '"',
    '"a',
    "-",
    "--",
    "-a",
    "or",
    "or or or",
    "a or",
    "%",
    "_",
    "$1",
    "{}",
    "'; DROP TABLE documents; --",
    "<b>x</b>",
    "\u202e\u200b\ufeff",
    "\U0001f600",
    "́" * 200,
    "ﬁ ﬂ ß ẞ ı İ",
    "x" * 2000,
    "a " * 1000,
    '"' * 2000,
    "-" * 2000,
    "((!a&b)|c)<2>" * 100,
]


async def test_any_string_is_answered(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    await upload_with_text(core_api, ingest, editor, "Ein Text mit 'Zeichen' & <b>mehr</b>")
    rng = random.Random(7)
    alphabet = string.printable + "äöüßÄ&|!<>()':*\\\"%_\u0301\u202e\ufdfa😀"
    made = ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(200)]

    for query in ODD + made:
        url = f"{ingest.url}/v1/search?q={quote(query, safe='')}"
        async with ingest.session.get(URL(url, encoded=True), headers=editor.headers) as response:
            assert response.status in {200, 422}, (query, await response.text())


async def test_a_broken_query_is_no_error_of_ours(ingest: Ingest, editor: Person) -> None:
    broken = ["q=%ED%A0%80", "q=%FF%FE", "q=%", "q=%zz", "q=a&q=b", "", "q=a&x=1"]
    for raw in [*broken, "q=" + "a" * 2001, "q=" + "a" * 20_000]:
        url = URL(f"{ingest.url}/v1/search?{raw}", encoded=True)
        async with ingest.session.get(url, headers=editor.headers) as response:
            assert 200 <= response.status < 500, raw


async def test_a_hit_in_a_large_text_is_found_fast(core_api: CoreApi, ingest: Ingest, editor: Person) -> None:
    words = " ".join(f"Wort{n}" for n in range(600_000))  # about 6 MB
    await upload_with_text(core_api, ingest, editor, words + " Nadel im Heuhaufen")

    async with asyncio.timeout(2.0):
        [hit] = await search(ingest, editor, "Nadel")

    assert [part["text"] for part in hit["snippet"] if part["hit"]] == ["Nadel"]
