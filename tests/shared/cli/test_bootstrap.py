import stat
from pathlib import Path

import asyncpg
import pytest

from nexarch.postgres import PostgresServer
from support.command import Command
from support.database import start_server

pytestmark = pytest.mark.database


async def test_a_new_server_becomes_a_platform_and_a_second_run_changes_no_secret(
    tmp_path: Path, server_folder: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    secrets = home / "secrets"
    server: PostgresServer = start_server(server_folder / "postgres")
    try:
        nexarch = Command(home, {"NEXARCH_SUPERUSER_DSN": server.dsn()})

        first = await nexarch("bootstrap", "--out", secrets, "--json")
        contents = {path.name: path.read_text() for path in secrets.iterdir()}
        second = await nexarch("bootstrap", "--out", secrets, "--json")

        assert (first.code, second.code) == (0, 0), first.err + second.err
        assert {path.name: path.read_text() for path in secrets.iterdir()} == contents
        assert sorted(contents) == first.json["files"]
        assert {"operator-token", "master-key", "dms_ingest.client-secret"} <= contents.keys()
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets.iterdir())
        assert not any(text.strip() in first.out + first.err for text in contents.values())
        conn = await asyncpg.connect(contents["bus-dsn"].strip())
        await conn.close()
    finally:
        server.stop("immediate")


async def test_a_user_who_is_no_superuser_is_refused_with_4(bus_dsn: str, tmp_path: Path) -> None:
    nexarch = Command(tmp_path, {"NEXARCH_SUPERUSER_DSN": bus_dsn})

    result = await nexarch("bootstrap", "--out", tmp_path / "secrets")

    assert result.code == 4
    assert "permission denied to create role" in result.err
