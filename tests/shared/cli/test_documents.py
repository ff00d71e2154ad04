"""`nexarch documents` and `nexarch search` against a running dms-ingest."""

from pathlib import Path
from uuid import UUID

import pytest

from nexarch.db import connect
from nexarch.tenant_database import database_dsn
from support.command import Command
from support.ingest import Person

pytestmark = pytest.mark.database

NOBODY = "01a2296b-3175-7ddb-8607-7a01f7c051da"


async def stored(nexarch: Command, tmp_path: Path, name: str = "a.txt") -> str:
    """A document's id."""
    (tmp_path / name).write_text(f"The text of {name}.\n")
    result = await nexarch("upload", tmp_path / name, "--json")
    assert result.code == 0, result.err
    document_id: str = result.json["items"][0]["document"]["id"]
    return document_id


async def processed(registry_dsn: str, editor: Person, document_id: str, text: str) -> None:
    """Do what the worker does when it has taken the text of a document."""
    conn = await connect(database_dsn(registry_dsn, f"tenant_{editor.tenant.slug}"), application_name="tests")
    try:
        sql = """
            UPDATE file_revisions
               SET processing_state = 'processed'
             WHERE document_id = $1
            RETURNING id
        """
        revision_id = await conn.fetchval(sql, UUID(document_id))
        await conn.fetchval("SELECT store_text($1, $2)", revision_id, text)
    finally:
        await conn.close()


async def test_documents_are_listed_newest_first_and_filtered_by_name(nexarch: Command, tmp_path: Path) -> None:
    first = await stored(nexarch, tmp_path, "Rechnung.txt")
    second = await stored(nexarch, tmp_path, "Vertrag.txt")

    everything = await nexarch("documents", "list", "--json")
    some = await nexarch("documents", "list", "--text", "rechn", "--folder", "root", "--json")

    assert [item["id"] for item in everything.json["items"]] == [second, first]
    assert [item["id"] for item in some.json["items"]] == [first]


async def test_a_document_is_renamed_shown_and_deleted(nexarch: Command, tmp_path: Path) -> None:
    document_id = await stored(nexarch, tmp_path)

    renamed = await nexarch("documents", "rename", document_id, "Ärger.txt", "--json")
    shown = await nexarch("documents", "show", document_id)
    moved = await nexarch("documents", "move", document_id, "root", "--json")
    deleted = await nexarch("documents", "delete", document_id)
    after = await nexarch("documents", "show", document_id)

    assert renamed.json["name"] == "Ärger.txt"
    assert "Ärger.txt" in shown.out
    assert "queued" in shown.out
    assert moved.json["folder_id"] is None
    assert (deleted.code, after.code) == (0, 3)


async def test_a_folder_that_is_not_there_ends_with_3(nexarch: Command, tmp_path: Path) -> None:
    document_id = await stored(nexarch, tmp_path)

    result = await nexarch("documents", "move", document_id, NOBODY)

    assert result.code == 3


async def test_what_did_not_fail_cannot_be_tried_again(nexarch: Command, tmp_path: Path) -> None:
    document_id = await stored(nexarch, tmp_path)

    result = await nexarch("documents", "retry", document_id)

    assert result.code == 1
    assert len(result.err.splitlines()) == 1


async def test_a_search_shows_the_hit_in_its_text(
    nexarch: Command, registry_dsn: str, editor: Person, tmp_path: Path
) -> None:
    document_id = await stored(nexarch, tmp_path)
    await processed(registry_dsn, editor, document_id, "Das Möbiusband hat nur eine Seite.")

    people = await nexarch("search", "moebiusband")
    programs = await nexarch("search", "moebiusband", "--json")

    assert "Möbiusband hat nur eine Seite" in people.out
    assert document_id in people.out
    (hit,) = programs.json["items"]
    assert [part["text"] for part in hit["snippet"] if part["hit"]] == ["Möbiusband"]


async def test_no_hit_is_an_answer_too(nexarch: Command) -> None:
    people = await nexarch("search", "nothing")
    programs = await nexarch("search", "nothing", "--json")

    assert (people.code, people.out, people.err) == (0, "", "Nothing found.\n")
    assert programs.json == {"items": [], "next_cursor": None}


async def test_what_lies_in_the_trash_is_listed_and_comes_back(nexarch: Command, tmp_path: Path) -> None:
    document_id = await stored(nexarch, tmp_path)
    deleted = await nexarch("documents", "delete", document_id)

    trash = await nexarch("documents", "trash")
    listed = await nexarch("documents", "trash", "--json")
    restored = await nexarch("documents", "restore", document_id, "--json")
    again = await nexarch("documents", "restore", document_id)
    after = await nexarch("documents", "trash")

    assert f"nexarch documents restore {document_id}" in deleted.err
    assert "a.txt" in trash.out
    assert [item["id"] for item in listed.json["items"]] == [document_id]
    assert restored.json["id"] == document_id
    assert (again.code, "not in the trash" in again.err) == (1, True)
    assert (after.code, after.out, after.err) == (0, "", "The trash is empty.\n")
