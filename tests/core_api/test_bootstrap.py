"""Bootstrap: from an empty database to a platform that can be operated, however often it is cut off."""

import os
import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from core_api.bootstrap import MODULES, BootstrapRefused, bootstrap
from core_api.credentials import find_service
from core_api.operators import find_operator
from core_api.settings import Settings
from nexarch.auth import Service
from nexarch.db import connect
from nexarch.private_files import SecretFolder
from support.database import Cluster, empty_database
from support.services import new_master_key

pytestmark = pytest.mark.database


def settings(dsn: str, master_key: SecretStr | None = None) -> Settings:
    return Settings(registry_dsn=SecretStr(dsn), master_key=master_key or new_master_key())


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


async def works(dsn: str, folder: SecretFolder) -> bool:
    """Whether the secrets in the folder are those that the registry knows."""
    conn = await connect(dsn, application_name="tests")
    try:
        found: list[object] = [await find_operator(conn, folder.read("operator-token") or "")]
        for name in MODULES:
            client_id = folder.read(f"{name}.client-id") or ""
            service = await find_service(conn, client_id, folder.read(f"{name}.client-secret") or "")
            found.append(service == Service(module_id=name, client_id=client_id))
    finally:
        await conn.close()
    return all(found)


async def test_an_empty_database_becomes_a_platform(cluster: Cluster, tmp_path: Path) -> None:
    async with empty_database(cluster) as dsn:
        folder = SecretFolder(tmp_path / "secrets")

        done = await bootstrap(settings(dsn), folder)

        assert await works(dsn, folder)
        assert any("operator" in sentence for sentence in done)
        secret = folder.read("operator-token")
        assert secret is not None
        assert secret not in "".join(done)


async def test_only_the_owner_reads_the_files(registry_dsn: str, tmp_path: Path) -> None:
    await bootstrap(settings(registry_dsn), SecretFolder(tmp_path))

    modes = [stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(tmp_path)]
    assert modes == [0o600] * 7


async def test_a_second_run_finds_nothing_to_do(registry_dsn: str, tmp_path: Path) -> None:
    folder, same = SecretFolder(tmp_path), settings(registry_dsn)
    await bootstrap(same, folder)
    before = contents(tmp_path)

    assert await bootstrap(same, folder) == []

    assert contents(tmp_path) == before


@pytest.mark.parametrize("writes", [1, 2, 3, 7])
async def test_a_run_cut_off_after_any_file_is_finished_by_the_next(
    writes: int, registry_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, same = SecretFolder(tmp_path), settings(registry_dsn)
    written = 0
    write = SecretFolder.write

    def dies(self: SecretFolder, name: str, text: str) -> None:
        nonlocal written
        write(self, name, text)
        written += 1
        if written == writes:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SecretFolder, "write", dies)
        with pytest.raises(KeyboardInterrupt):
            await bootstrap(same, folder)

    await bootstrap(same, folder)

    assert await works(registry_dsn, folder)


async def test_what_operators_changed_stays(registry_dsn: str, tmp_path: Path) -> None:
    folder, same = SecretFolder(tmp_path), settings(registry_dsn)
    await bootstrap(same, folder)
    conn = await connect(registry_dsn, application_name="tests")
    await conn.execute("UPDATE feature_flags SET enabled_for_all = false")
    await conn.execute("UPDATE modules SET required_flags = '{}'")
    (tmp_path / "operator-token").unlink()

    assert await bootstrap(same, folder) == []

    assert not await conn.fetchval("SELECT enabled_for_all FROM feature_flags")
    assert await conn.fetchval("SELECT count(*) FROM modules WHERE required_flags = '{}'") == 3
    assert not (tmp_path / "operator-token").exists()
    await conn.close()


async def test_another_folder_is_refused_and_told_why(registry_dsn: str, tmp_path: Path) -> None:
    same = settings(registry_dsn)
    await bootstrap(same, SecretFolder(tmp_path / "one"))

    with pytest.raises(BootstrapRefused, match=r"dms_ingest\.client-id"):
        await bootstrap(same, SecretFolder(tmp_path / "two"))


async def test_another_master_key_is_refused_and_told_why(registry_dsn: str, tmp_path: Path) -> None:
    await bootstrap(settings(registry_dsn), SecretFolder(tmp_path))

    with pytest.raises(BootstrapRefused, match="CORE_API_MASTER_KEY"):
        await bootstrap(settings(registry_dsn), SecretFolder(tmp_path))


async def test_a_revoked_credential_is_replaced(registry_dsn: str, tmp_path: Path) -> None:
    folder, same = SecretFolder(tmp_path), settings(registry_dsn)
    await bootstrap(same, folder)
    conn = await connect(registry_dsn, application_name="tests")
    await conn.execute("UPDATE module_credentials SET revoked_at = now() WHERE module_id = 'alerter'")
    await conn.close()

    await bootstrap(same, folder)

    assert await works(registry_dsn, folder)
