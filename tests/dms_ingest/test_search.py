import asyncio
import unicodedata
from uuid import UUID

import pytest

from dms_ingest.documents import delete_document
from dms_ingest.search import Hit, Marks, Part, SearchTooSlow, search
from nexarch.db import Connection, connect
from support.database import TenantDatabase
from support.documents import add_document, next_revision

pytestmark = pytest.mark.database

MARKS = Marks("s0", "e0")


async def found(conn: Connection, query: str) -> list[Hit]:
    return list(await search(conn, query, MARKS, after=None, limit=200))


def marked(hit: Hit) -> list[str]:
    assert hit.snippet is not None
    return [part.text for part in MARKS.split(hit.snippet) if part.hit]


@pytest.mark.parametrize("query", ["Müller", "Mueller", "MULLER", "müller", unicodedata.normalize("NFD", "Müller")])
async def test_every_spelling_finds_the_name_and_marks_it(
    tenant_conn: Connection, tenant_user: UUID, query: str
) -> None:
    document_id = await add_document(tenant_conn, tenant_user, text="Der Vertrag mit Herrn Müller vom 3. Mai.")
    await add_document(tenant_conn, tenant_user, text="Der Vertrag mit Frau Meier.")

    [hit] = await found(tenant_conn, query)

    assert hit.document_id == document_id
    assert marked(hit) == ["Müller"]


async def test_words_of_the_name_are_found_without_a_snippet(tenant_conn: Connection, tenant_user: UUID) -> None:
    document_id = await add_document(tenant_conn, tenant_user, name="Rechnung_Müller-2024.pdf")

    for query in ["rechnung", "mueller", "2024", "Rechnung_Müller-2024.pdf"]:
        [hit] = await found(tenant_conn, query)
        assert (hit.document_id, hit.snippet) == (document_id, None), query


async def test_neither_the_trash_nor_an_old_revision_is_found(tenant_conn: Connection, tenant_user: UUID) -> None:
    deleted = await add_document(tenant_conn, tenant_user, text="Möbiusband")
    await delete_document(tenant_conn, deleted, if_versions=None)
    replaced = await add_document(tenant_conn, tenant_user, text="Möbiusband")
    await next_revision(tenant_conn, replaced, tenant_user)

    assert await found(tenant_conn, "Möbiusband") == []


async def test_pages_follow_the_rank_and_miss_nothing(tenant_conn: Connection, tenant_user: UUID) -> None:
    for n in range(7):
        await add_document(tenant_conn, tenant_user, text="Vertrag " * (1 + n % 3))

    seen: list[Hit] = []
    after = None
    while page := await search(tenant_conn, "Vertrag", MARKS, after=after, limit=2):
        seen += page
        after = (page[-1].rank, page[-1].document_id)

    assert len({hit.document_id for hit in seen}) == 7
    assert [hit.rank for hit in seen] == sorted((hit.rank for hit in seen), reverse=True)


async def test_a_search_that_takes_too_long_is_given_up(
    tenant_database: TenantDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dms_ingest.search.TIMEOUT_S", 0.1)
    searching = await connect(tenant_database.dsn, application_name="tests")
    blocking = await connect(tenant_database.owner_dsn, application_name="tests")
    try:
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE document_texts")
            async with asyncio.timeout(10):
                with pytest.raises(SearchTooSlow):
                    await search_in_transaction(searching)

        assert await search_in_transaction(searching) == []
    finally:
        await searching.close()
        await blocking.close()


async def search_in_transaction(conn: Connection) -> list[Hit]:
    async with conn.transaction(readonly=True):
        return await found(conn, "Vertrag")


def test_a_snippet_is_taken_apart_at_its_marks() -> None:
    assert MARKS.split("a s0be0 c s0de0") == [
        Part("a ", hit=False),
        Part("b", hit=True),
        Part(" c ", hit=False),
        Part("d", hit=True),
    ]
    assert MARKS.split("") == []
    assert MARKS.split("s0ae0") == [Part("a", hit=True)]


def test_marks_are_new_each_time() -> None:
    assert Marks.new() != Marks.new()
