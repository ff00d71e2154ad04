"""What the tenant schema's search functions find."""

import unicodedata
from uuid import UUID

import pytest

from nexarch.db import Connection

pytestmark = pytest.mark.database


async def add_document(conn: Connection, name: str, text: str) -> UUID:
    """A document with one revision and its extracted text."""
    document: UUID = await conn.fetchval("INSERT INTO documents (name) VALUES ($1) RETURNING id", name)
    revision = await conn.fetchval(
        """
        INSERT INTO file_revisions
               (document_id, number, storage_key, checksum_sha256, size_bytes, mime_type, wrapped_dek, kek_version)
        VALUES ($1, 1, $2, sha256(''), 0, 'text/plain',
                decode(repeat('00', 60), 'hex'), 1)
        RETURNING id
        """,
        document,
        f"documents/{document}/revisions/{document}",
    )
    await conn.execute("UPDATE documents SET current_revision_id = $2 WHERE id = $1", document, revision)
    await conn.execute("SELECT store_text($1, $2)", revision, text)
    return document


async def found(conn: Connection, query: str) -> list[UUID]:
    """The ids of the documents that match, best first."""
    sql = "SELECT document_id FROM search_documents($1) ORDER BY rank DESC"
    return [row["document_id"] for row in await conn.fetch(sql, query)]


@pytest.mark.parametrize("stored", ["Müller", "Mueller", "MÜLLER", unicodedata.normalize("NFD", "Müller")])
@pytest.mark.parametrize(
    "typed", ["Müller", "Mueller", "MULLER", "muller", unicodedata.normalize("NFD", "Müller"), '"Herr Müller"']
)
async def test_every_spelling_of_a_name_with_umlaut_finds_it(tenant_conn: Connection, stored: str, typed: str) -> None:
    document = await add_document(tenant_conn, "brief.pdf", f"Sehr geehrter Herr {stored}, vielen Dank.")

    assert await found(tenant_conn, typed) == [document]


async def test_words_far_apart_in_a_long_text_and_in_the_name_match_together(tenant_conn: Connection) -> None:
    filler = "lorem ipsum dolor sit amet " * 10_000
    document = await add_document(tenant_conn, "Rechnung_Möbius-2024.pdf", f"anfang {filler} mitte {filler} ende")

    assert await found(tenant_conn, "anfang ende mitte rechnung 2024 moebius") == [document]
    assert await found(tenant_conn, "anfang nirgends") == []
    assert await found(tenant_conn, "anfang -ende") == []
    assert await found(tenant_conn, "nirgends or mitte") == [document]
