"""What the tenant schema's search functions find."""

import random
import unicodedata
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexarch.db import Connection

pytestmark = pytest.mark.database


async def add_document(conn: Connection, name: str, text: str) -> UUID:
    """A document with one revision and its extracted text."""
    document: UUID = await conn.fetchval("INSERT INTO documents (name) VALUES ($1) RETURNING id", name)
    revision = await conn.fetchval(
        """
        INSERT INTO file_revisions
               (id, document_id, number, storage_key, checksum_sha256, size_bytes, mime_type, wrapped_dek, kek_version)
        VALUES ($1, $1, 1, $2, sha256(''), 0, 'text/plain',
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


async def test_a_phrase_is_found_across_the_cut_between_two_parts(tenant_conn: Connection) -> None:
    filler = "x" * 23_985
    document = await add_document(tenant_conn, "a.txt", f"{filler} Land der Berge, Land am Strome")

    assert await parts(tenant_conn, document) == [f"{filler} Land der ", "Berge, Land am Strome"]
    assert await found(tenant_conn, '"Land der Berge"') == [document]
    assert await found(tenant_conn, '"Berge der Land"') == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n" * 60_000,
        "x" * 60_000,
        "a\u0308" * 30_000,
        "𝔘 " * 30_000,
        "ein Wort\tund\u00a0noch eins\n" * 3_000,
    ],
    ids=["empty", "blank", "newlines", "one word", "combining", "astral", "lines"],
)
async def test_the_parts_of_a_text_joined_are_the_text(tenant_conn: Connection, text: str) -> None:
    document = await add_document(tenant_conn, "a.txt", text)

    assert "".join(await parts(tenant_conn, document)) == text


async def test_a_text_of_five_megabytes_of_different_words_is_searchable_to_its_end(
    tenant_conn: Connection,
) -> None:
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyzäöü"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 12))) for _ in range(560_000)]
    text = " ".join([*words, "schlusswort"])
    document = await add_document(tenant_conn, "gross.txt", text)

    assert len(text.encode()) > 5_000_000
    assert await found(tenant_conn, f"{words[0]} {words[280_000]} schlusswort") == [document]


async def test_storing_a_text_again_replaces_it(tenant_conn: Connection) -> None:
    document = await add_document(tenant_conn, "a.txt", "früher " * 10_000)
    revision = await tenant_conn.fetchval("SELECT current_revision_id FROM documents")

    stored = await tenant_conn.fetchval("SELECT store_text($1, $2)", revision, "jetzt")

    assert stored == 1
    assert await parts(tenant_conn, document) == ["jetzt"]
    assert await found(tenant_conn, "früher") == []


@pytest.mark.parametrize("typed", ["Rechnung", "möbius", "moebius", "2024", "pdf", "Rechnung_Möbius-2024.pdf"])
async def test_a_file_name_is_found_by_its_parts(tenant_conn: Connection, typed: str) -> None:
    document = await add_document(tenant_conn, "Rechnung_Möbius-2024.pdf", "")

    assert await found(tenant_conn, typed) == [document]


@pytest.mark.parametrize("typed", ["die", "the", "Häuser", "haus", "running", "Straße", "strasse", "Auflage"])
async def test_stop_words_inflected_words_and_ligatures_are_found(tenant_conn: Connection, typed: str) -> None:
    document = await add_document(
        tenant_conn, "a.txt", "Die Häuser der Straße in zweiter Auﬂage, while the man was running."
    )

    assert await found(tenant_conn, typed) == [document]


async def test_documents_in_the_trash_and_old_revisions_are_not_found(tenant_conn: Connection) -> None:
    trashed = await add_document(tenant_conn, "trashed.txt", "geheim")
    replaced = await add_document(tenant_conn, "replaced.txt", "geheim")
    await tenant_conn.execute("UPDATE documents SET deleted_at = now() WHERE id = $1", trashed)
    await tenant_conn.execute("UPDATE documents SET current_revision_id = NULL WHERE id = $1", replaced)

    assert await found(tenant_conn, "geheim") == []
    assert await found(tenant_conn, "trashed") == []
    assert await found(tenant_conn, "replaced") == [replaced]


async def test_a_hit_names_the_part_with_the_words_and_a_snippet_marks_them(tenant_conn: Connection) -> None:
    filler = "lorem ipsum dolor sit amet " * 2_000
    await add_document(tenant_conn, "a.txt", f"{filler} Das Band von August Ferdinand Möbius {filler}")

    snippet = await tenant_conn.fetchval(
        """
        SELECT search_snippet(content, $1, '<<', '>>')
          FROM search_documents($1) AS hit
          JOIN document_texts t ON t.revision_id = hit.revision_id AND t.part = hit.part
        """,
        "Moebius August",
    )

    assert "<<August>> Ferdinand <<Möbius>>" in snippet


async def test_a_name_says_more_than_a_text(tenant_conn: Connection) -> None:
    in_text = await add_document(tenant_conn, "a.txt", "Vertrag")
    in_name = await add_document(tenant_conn, "Vertrag.txt", "")

    assert await found(tenant_conn, "vertrag") == [in_name, in_text]


async def test_search_does_not_depend_on_the_search_path(tenant_conn: Connection) -> None:
    document = await add_document(tenant_conn, "a.txt", "Müller")
    await tenant_conn.execute("SET LOCAL search_path = pg_catalog")

    rows = await tenant_conn.fetch("SELECT document_id FROM public.search_documents('mueller')")

    assert [row["document_id"] for row in rows] == [document]


@pytest.mark.parametrize(
    "typed",
    [
        "",
        " ",
        '"',
        '""',
        "-",
        "--",
        "-a",
        "or",
        "or or",
        "a or",
        "-or",
        "' \\ & | ! ( ) :* <-> <2>",
        "a:*b & !!c",
        "%_\\",
        "ü" * 100_000,
        "a " * 100_000,
        "\U0001f600\u202e\ufeff",
        "http://x/?a=b -http://y",
        "\ufdfa" * 500,
        "½" * 500,
    ],
)
async def test_no_string_is_an_error(tenant_conn: Connection, typed: str) -> None:
    await try_everything(tenant_conn, typed)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=600))
async def test_no_random_string_is_an_error(tenant_conn: Connection, typed: str) -> None:
    await try_everything(tenant_conn, typed)


async def try_everything(conn: Connection, typed: str) -> None:
    await conn.fetch("SELECT * FROM search_documents($1)", typed)
    await conn.fetchval("SELECT search_vector($1) @@ search_query($1)", typed)
    await conn.fetchval("SELECT search_name_vector(left($1, 255))", typed)
    await conn.fetchval("SELECT search_snippet('Müller or -a', $1, $2, $3)", typed, "\x02", "\x03")


async def parts(conn: Connection, document: UUID) -> list[str]:
    sql = """
        SELECT content
          FROM document_texts t JOIN documents d ON d.current_revision_id = t.revision_id
         WHERE d.id = $1
         ORDER BY part
    """
    return [row["content"] for row in await conn.fetch(sql, document)]
