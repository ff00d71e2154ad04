"""`nexarch download` from a running dms-ingest, over lines that break."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from support.breaking_line import Proxy
from support.command import Command
from support.files import write_pdf
from support.ingest import Ingest

pytestmark = pytest.mark.database

MIB = 1 << 20


async def stored(nexarch: Command, tmp_path: Path, size: int, name: str = "a.pdf") -> dict[str, Any]:
    """A document of this size; its file is kept in `tmp_path`."""
    write_pdf(tmp_path / name, size)
    result = await nexarch("upload", tmp_path / name, "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = result.json["items"][0]["document"]
    return document


async def test_a_download_is_the_file_that_was_uploaded(nexarch: Command, tmp_path: Path) -> None:
    document = await stored(nexarch, tmp_path, 3 * MIB + 5, "Größe 1.pdf")

    result = await nexarch("download", document["id"], "--json")

    assert result.code == 0, result.err
    assert (nexarch.home / "Größe 1.pdf").read_bytes() == (tmp_path / "Größe 1.pdf").read_bytes()
    assert result.json == {
        "file": "Größe 1.pdf",
        "size_bytes": 3 * MIB + 5,
        "sha256": document["current_revision"]["sha256"],
    }


async def test_a_file_that_is_there_is_replaced_only_with_force(nexarch: Command, tmp_path: Path) -> None:
    document = await stored(nexarch, tmp_path, 2000)
    (nexarch.home / "a.pdf").write_text("mine")

    refused = await nexarch("download", document["id"])
    kept = (nexarch.home / "a.pdf").read_text()
    forced = await nexarch("download", document["id"], "--force")

    assert (refused.code, kept, forced.code) == (1, "mine", 0)
    assert (nexarch.home / "a.pdf").read_bytes() == (tmp_path / "a.pdf").read_bytes()


async def test_a_name_that_is_too_long_for_the_disk_is_cut_and_keeps_its_extension(
    nexarch: Command, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)
    uploaded = await nexarch("upload", file, "--name", "契" * 251 + ".pdf", "--json")
    document = uploaded.json["items"][0]["document"]

    result = await nexarch("download", document["id"])

    assert result.code == 0, result.err
    assert (nexarch.home / ("契" * 78 + ".pdf")).read_bytes() == file.read_bytes()


async def test_a_line_that_breaks_costs_little_more_than_the_file(
    nexarch: Command, behind_proxy: Command, proxy: Proxy, tmp_path: Path
) -> None:
    document = await stored(nexarch, tmp_path, 20 * MIB)
    proxy.cut_received_at = [6 * MIB, 15 * MIB]

    result = await behind_proxy("download", document["id"], "--output", "b.pdf")

    assert result.code == 0, result.err
    assert (nexarch.home / "b.pdf").read_bytes() == (tmp_path / "a.pdf").read_bytes()
    assert proxy.cut_received_at == []
    assert proxy.received < 24 * MIB


async def test_a_run_that_gave_up_leaves_no_file_and_is_gone_on_with(
    nexarch: Command, behind_proxy: Command, proxy: Proxy, tmp_path: Path
) -> None:
    document = await stored(nexarch, tmp_path, 20 * MIB)
    proxy.cut_received_at, proxy.close_at_cut = [12 * MIB], True

    first = await behind_proxy("download", document["id"], "--output", "b.pdf", "--retry-for", "0.8")
    was_there = (nexarch.home / "b.pdf").exists()
    before, proxy.is_closed = proxy.received, False
    second = await behind_proxy("download", document["id"], "--output", "b.pdf")

    assert (first.code, was_there, second.code) == (5, False, 0), first.err + second.err
    assert (nexarch.home / "b.pdf").read_bytes() == (tmp_path / "a.pdf").read_bytes()
    assert proxy.received - before < 12 * MIB
    assert [path.name for path in nexarch.home.iterdir() if path.name.endswith(".part")] == []


async def test_stdout_takes_the_bytes_alone(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("nothing but this\n")
    document = (await nexarch("upload", file, "--json")).json["items"][0]["document"]

    result = await nexarch("download", document["id"], "--output", "-")

    assert result.out == "nothing but this\n"
    assert hashlib.sha256(b"nothing but this\n").hexdigest() in result.err


async def test_an_older_revision_is_still_there(nexarch: Command, tmp_path: Path) -> None:
    document = await stored(nexarch, tmp_path, 2000)
    first = (tmp_path / "a.pdf").read_bytes()
    write_pdf(tmp_path / "a.pdf", 3000, seed=2)
    await nexarch("upload", tmp_path / "a.pdf", "--document", document["id"])

    result = await nexarch("download", document["id"], "--revision", "1", "--output", "first.pdf")

    assert result.code == 0, result.err
    assert (nexarch.home / "first.pdf").read_bytes() == first


async def test_a_damaged_object_never_becomes_a_file(nexarch: Command, ingest: Ingest, tmp_path: Path) -> None:
    document = await stored(nexarch, tmp_path, 2 * MIB)
    assert ingest.settings.storage_dir is not None
    (stored_object,) = ingest.settings.storage_dir.glob("*/documents/*/revisions/*")
    content = bytearray(stored_object.read_bytes())
    content[-1000] ^= 1
    stored_object.write_bytes(content)

    result = await nexarch("download", document["id"], "--output", "b.pdf", "--retry-for", "0.8")

    assert result.code == 5
    assert not (nexarch.home / "b.pdf").exists()


async def test_bytes_of_something_else_are_found_out_and_thrown_away(nexarch: Command, tmp_path: Path) -> None:
    document = await stored(nexarch, tmp_path, 2 * MIB)
    sha256 = document["current_revision"]["sha256"]
    part = nexarch.home / f".b.pdf.{sha256[:16]}.part"
    part.write_bytes(b"not the beginning of it")

    first = await nexarch("download", document["id"], "--output", "b.pdf")
    was_there = (nexarch.home / "b.pdf").exists()
    second = await nexarch("download", document["id"], "--output", "b.pdf")

    assert (first.code, was_there, second.code) == (1, False, 0)
    assert "[wrong-digest]" in first.err


async def test_an_unknown_document_ends_with_3(nexarch: Command) -> None:
    result = await nexarch("download", "01a2296b-3175-7ddb-8607-7a01f7c051da")

    assert (result.code, result.out) == (3, "")
