"""The whole platform as `nexarch up` starts it, and what becomes of it when something is killed or in the way."""

import asyncio
import io
import os
import signal
import socket
from pathlib import Path

import pytest
from rich.console import Console

from nexarch.cli.up import outcome_table
from nexarch.up.demo import Outcome
from nexarch.up.home import Home
from nexarch.up.platform import environment
from support.command import Command
from support.up import free_ports_in_a_row, running_up
from support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.fixture
def nexarch(tmp_path: Path) -> Command:
    home = tmp_path / "home"
    home.mkdir()
    return Command(home)


async def test_the_demonstration_ends_with_0_and_on_the_same_data_with_1_for_a_word_that_is_not_found(
    nexarch: Command, server_folder: Path
) -> None:
    own = server_folder / "brief.txt"
    own.write_text("Der Schiffskompass zeigt nach Norden.")
    home = server_folder / "platform"
    arguments = ("--home", home, "--port-base", str(free_ports_in_a_row()), "--once", "--file", own, "--search")

    found = await nexarch("up", *arguments, "Schiffskompass")
    not_found = await nexarch("up", *arguments, "Einhorn")

    assert found.code == 0, found.out + found.err
    assert "brief.txt  found by Schiffskompass" in found.out
    assert "beschädigt.pdf could not be read: damaged-file" in found.out
    assert "everything came back as it went in" in found.out
    assert not_found.code == 1, not_found.out + not_found.err
    assert "no document of yours is found by Einhorn" in not_found.out
    assert not (home / "endpoints.json").exists()


async def test_a_killed_postgres_is_started_again(nexarch: Command, server_folder: Path) -> None:
    async with running_up(nexarch, server_folder / "platform", free_ports_in_a_row()) as up:
        killed = up.postgres_pid

        os.kill(killed, signal.SIGKILL)

        async def is_back() -> bool:
            return up.postgres_pid != killed and await up.is_ready()

        await eventually(is_back, within_s=60, every_s=0.1)


async def test_a_second_start_on_the_same_folder_is_refused_and_harms_nothing(
    nexarch: Command, server_folder: Path
) -> None:
    folder = server_folder / "platform"
    async with running_up(nexarch, folder, free_ports_in_a_row()) as up:
        second = await nexarch("up", "--home", folder, "--port-base", str(free_ports_in_a_row()), "--no-demo")

        assert second.code == 1
        assert "Another `nexarch up` works in" in second.err
        assert await up.is_ready()


async def test_after_a_kill_the_next_start_goes_on_with_other_ports(nexarch: Command, server_folder: Path) -> None:
    folder = server_folder / "platform"
    async with running_up(nexarch, folder, free_ports_in_a_row()) as up:
        left_behind = up.postgres_pid
        up.process.kill()
        await up.process.wait()

        again = await nexarch(
            "up", "--home", folder, "--port-base", str(free_ports_in_a_row()), "--no-demo", "--once"
        )  # fmt: skip

        assert again.code == 0, again.out + again.err
        assert not _runs(left_behind)


async def test_ctrl_c_while_postgres_starts_leaves_no_server_behind(nexarch: Command, server_folder: Path) -> None:
    base = free_ports_in_a_row()
    process = await nexarch.start("up", "--home", server_folder / "platform", "--port-base", str(base), "--no-demo")
    assert process.stdout is not None
    async with asyncio.timeout(30):
        await process.stdout.readline()  # "PostgreSQL 18 on port ..."

    process.send_signal(signal.SIGINT)
    await process.communicate()

    assert process.returncode == 130
    assert not (server_folder / "platform/postgres/data/postmaster.pid").exists()


async def test_a_taken_port_is_named_before_anything_starts(nexarch: Command, server_folder: Path) -> None:
    base = free_ports_in_a_row()
    with socket.socket() as other:
        other.bind(("127.0.0.1", base + 4))
        other.listen()

        result = await nexarch("up", "--home", server_folder / "platform", "--port-base", str(base))

    assert result.code == 1
    assert f"Port {base + 4}, meant for PostgreSQL, is taken" in result.err
    assert not (server_folder / "platform/postgres").exists()


async def test_a_wrong_setting_is_named_at_once(nexarch: Command, server_folder: Path) -> None:
    arguments = ("--home", server_folder / "platform", "--port-base", str(free_ports_in_a_row()))

    result = await nexarch("up", *arguments, variables={"DMS_INGEST_MAX_UPLOADS": "none"})

    assert result.code == 1
    assert "DMS_INGEST_MAX_UPLOADS: Input should be a valid integer" in result.err
    assert "dms-ingest has a wrong setting" in result.err
    assert "started again" not in result.out + result.err


async def test_a_folder_that_cannot_be_made_is_named(nexarch: Command) -> None:
    result = await nexarch("up", "--home", "/proc/nexarch")

    assert result.code == 1
    assert "/proc/nexarch cannot be made" in result.err


async def test_a_file_without_the_demonstration_is_a_mistake(nexarch: Command, server_folder: Path) -> None:
    file = server_folder / "a.txt"
    file.touch()

    result = await nexarch("up", "--no-demo", "--file", file)

    assert result.code == 2


def test_the_table_keeps_names_whole_on_80_columns() -> None:
    outcomes = [Outcome("Wartungshandbuch.pdf", 116_000, 0.5, 3.2, "processed", searches=252, searches_that_hit=252)]
    console = Console(file=io.StringIO(), width=80)

    console.print(outcome_table(outcomes))

    assert isinstance(console.file, io.StringIO)
    assert "Wartungshandbuch.pdf" in console.file.getvalue()
    assert len(console.file.getvalue().splitlines()) == 3


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_services_settings_in_the_environment_count_but_for_its_addresses_and_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOG_FORMAT", "LOG_LEVEL", "PORT", "REGISTRY_DSN_FILE"):
        monkeypatch.setenv(f"CORE_API_{name}", "mine")
    monkeypatch.setenv("DMS_INGEST_LOG_LEVEL", "another's")

    variables = environment(Home(tmp_path, 8080), "core-api")

    mine = {name for name, value in variables.items() if value == "mine"}
    assert mine == {"CORE_API_LOG_FORMAT", "CORE_API_LOG_LEVEL"}
    assert not any(name.startswith("DMS_INGEST_") for name in variables)
