import json
import stat
import sys
from pathlib import Path

import pytest

from nexarch.containers import SERVICES, bring_up, main, prepare
from nexarch.private_files import SecretFolder
from support.database import start_server


def contents(root: Path) -> dict[str, str]:
    """Every secret below the folder, by its path."""
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def test_the_stores_get_their_secrets_before_they_start_and_keep_them(tmp_path: Path) -> None:
    prepare(tmp_path)
    first = contents(tmp_path)
    prepare(tmp_path)

    assert contents(tmp_path) == first
    assert first["postgres/superuser-password"] == first["platform/superuser-password"]
    identities = json.loads(first["object-store/s3.json"])["identities"]
    keys = [credential["secretKey"] for identity in identities for credential in identity["credentials"]]
    assert len(keys) == len(set(keys)) == 2
    assert {path for path in first if not path.startswith("platform/")} == {
        "postgres/superuser-password",
        "object-store/s3.json",
    }


@pytest.mark.database
async def test_each_service_gets_its_own_secrets_and_no_others(tmp_path: Path, server_folder: Path) -> None:
    root = tmp_path / "secrets"
    server = start_server(server_folder / "postgres")
    try:
        address = server.dsn().rpartition("@")[2].partition("/")[0]
        password = (server.home / "superuser-password").read_text().strip()
        SecretFolder(root / "platform").write("superuser-password", password)

        prepare(root)
        await bring_up(root, address)
        first = contents(root)
        await bring_up(root, address)

        assert contents(root) == first
        for service, names in SERVICES.items():
            assert {path.name for path in (root / service).iterdir()} == set(names)
            for name in names:
                assert first[f"{service}/{name}"] == first[f"platform/{name}"]
                assert stat.S_IMODE((root / service / name).stat().st_mode) == 0o640
    finally:
        server.stop("immediate")


def test_a_server_that_is_away_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["containers", "bootstrap", "--root", str(tmp_path), "--postgres", "127.0.0.1:1"])

    with pytest.raises(SystemExit, match="cannot be set up: ConnectionRefusedError"):
        main()
