"""`nexarch upload` against a running dms-ingest, over lines that break."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from support.breaking_line import Proxy, run_proxy
from support.command import Command
from support.database import free_port
from support.files import write_pdf
from support.ingest import Person, ingest_settings, run_ingest, run_ingest_process
from support.services import CoreApi
from support.user_command import user_command

pytestmark = pytest.mark.database

MIB = 1 << 20


async def test_an_upload_becomes_a_document_with_the_files_digest(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "Größe.pdf"
    sha256 = write_pdf(file, 9 * MIB + 1)

    result = await nexarch("upload", file, "--json")

    assert result.code == 0, result.err
    (item,) = result.json["items"]
    assert item["document"]["name"] == "Größe.pdf"
    assert item["document"]["current_revision"]["sha256"] == sha256
    assert item["document"]["processing_state"] == "queued"
    assert not list((nexarch.home / "state").rglob("*.json"))


async def test_people_see_a_table_with_the_documents_id(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)

    result = await nexarch("upload", file)

    header, line = result.out.splitlines()
    assert header.split() == ["document", "revision", "size", "state", "name"]
    assert line.split()[1:] == ["1", "2.0", "KiB", "queued", "a.pdf"]


async def test_an_upload_over_a_line_that_breaks_twice_sends_little_more_than_the_file(
    behind_proxy: Command, proxy: Proxy, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    sha256 = write_pdf(file, 20 * MIB)
    proxy.cut_sent_at = [5 * MIB, 13 * MIB]

    result = await behind_proxy("upload", file, "--json")

    assert result.code == 0, result.err
    assert result.json["items"][0]["document"]["current_revision"]["sha256"] == sha256
    assert proxy.cut_sent_at == []
    assert proxy.sent < 26 * MIB


async def test_a_run_that_gave_up_is_gone_on_with_by_the_same_command(
    behind_proxy: Command, proxy: Proxy, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    sha256 = write_pdf(file, 20 * MIB)
    proxy.cut_sent_at, proxy.close_at_cut = [10 * MIB], True

    first = await behind_proxy("upload", file, "--retry-for", "1", "--json")
    sent_before, proxy.is_closed = proxy.sent, False
    second = await behind_proxy("upload", file, "--json")

    assert first.code == 5
    assert "goes on where it stopped" in first.err
    assert second.code == 0, second.err
    assert second.json["items"][0]["document"]["current_revision"]["sha256"] == sha256
    assert proxy.sent - sent_before < 14 * MIB


async def test_a_file_that_changed_between_two_runs_is_sent_anew(
    behind_proxy: Command, proxy: Proxy, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 10 * MIB)
    proxy.cut_sent_at, proxy.close_at_cut = [5 * MIB], True
    await behind_proxy("upload", file, "--retry-for", "0.8")
    proxy.is_closed = False

    sha256 = write_pdf(file, 10 * MIB, seed=2)
    os.utime(file, ns=(1, 1))
    result = await behind_proxy("upload", file, "--json")

    assert result.code == 0, result.err
    assert result.json["items"][0]["document"]["current_revision"]["sha256"] == sha256


async def test_an_upload_outlives_a_server_that_is_killed_and_started_again(
    core_api: CoreApi, editor: Person, bus_dsn: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    sha256 = write_pdf(file, 20 * MIB)
    settings = ingest_settings(core_api, bus_dsn, tmp_path)
    async with run_ingest_process(settings) as (_, killed), run_proxy(killed.url) as proxy:
        proxy.cut_sent_at, proxy.close_at_cut = [10 * MIB], True
        running = asyncio.create_task(
            user_command(tmp_path / "home", core_api, editor, proxy.url)("upload", file, "--json")
        )
        cut = asyncio.create_task(proxy.was_cut.wait())
        await asyncio.wait([cut, running], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert cut.done(), await running
        await killed.kill()
        async with run_ingest(settings) as restarted:
            proxy.upstream, proxy.is_closed = restarted.url, False
            result = await running

    assert result.code == 0, result.err
    assert result.json["items"][0]["document"]["current_revision"]["sha256"] == sha256


async def test_a_refused_file_does_not_stop_the_next(nexarch: Command, tmp_path: Path) -> None:
    refused, taken = tmp_path / "a.html", tmp_path / "b.pdf"
    refused.write_text("<script>")
    write_pdf(taken, 2000)

    result = await nexarch("upload", refused, taken, "--json")

    assert result.code == 1
    first, second = result.json["items"]
    assert (first["document"], second["error"]) == (None, None)
    assert first["error"]["detail"]
    assert str(refused) in result.err


async def test_of_a_refused_file_people_see_its_reason_and_nothing_else(nexarch: Command, tmp_path: Path) -> None:
    refused = tmp_path / "a.html"
    refused.write_text("<script>")

    result = await nexarch("upload", refused)

    assert (result.code, result.out) == (1, "")
    assert [line.partition(": ")[2].partition(": ")[0] for line in result.err.splitlines()] == [str(refused)]


async def test_an_empty_file_is_refused(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.touch()

    result = await nexarch("upload", file, "--json")

    assert result.code == 1
    assert "The file has no bytes" in result.err


async def test_a_new_revision_of_a_document_gets_the_next_number(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)
    document = (await nexarch("upload", file, "--json")).json["items"][0]["document"]

    result = await nexarch("upload", file, "--document", document["id"], "--json")

    again = result.json["items"][0]["document"]
    assert (again["id"], again["current_revision"]["number"]) == (document["id"], 2)


async def test_waiting_for_workers_that_do_not_run_ends_with_5(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)

    result = await nexarch("upload", file, "--wait", "--wait-for", "0.3")

    assert result.code == 5
    assert "still queued" in result.err


async def test_a_server_that_is_away_ends_with_5_after_the_patience_given(
    core_api: CoreApi, editor: Person, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)
    nexarch = user_command(tmp_path / "home", core_api, editor, f"http://127.0.0.1:{free_port()}")

    result = await nexarch("upload", file, "--retry-for", "0.8")

    assert result.code == 5
    assert "does not answer" in result.err


async def test_a_file_that_is_refused_when_it_is_whole_is_not_remembered(nexarch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_text("This is no PDF.")

    result = await nexarch("upload", file)

    assert result.code == 1
    assert not list((nexarch.home / "state").rglob("*.json"))


async def test_ctrl_c_ends_an_upload_with_130_and_without_a_traceback(
    core_api: CoreApi, editor: Person, tmp_path: Path
) -> None:
    file = tmp_path / "a.pdf"
    write_pdf(file, 2000)
    async with run_proxy("http://127.0.0.1:1") as proxy:
        proxy.is_closed = True
        process = await user_command(tmp_path / "home", core_api, editor, proxy.url).start("upload", file)
        async with asyncio.timeout(60):
            await proxy.was_asked.wait()
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()

    assert (process.returncode, out, err) == (130, b"", b"nexarch: interrupted\n")
