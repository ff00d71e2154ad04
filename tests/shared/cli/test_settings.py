"""`nexarch settings` against a running dms-ingest."""

from pathlib import Path

import pytest

from support.command import Command
from support.ingest import Ingest, sign_in
from support.services import CoreApi
from support.user_command import user_command

pytestmark = pytest.mark.database


@pytest.fixture
async def as_admin(tmp_path: Path, core_api: CoreApi, ingest: Ingest) -> Command:
    """The command of an admin of a new tenant."""
    return user_command(tmp_path / "admin", core_api, await sign_in(core_api, role="admin"), ingest.url)


async def test_what_is_given_changes_and_the_rest_stays(as_admin: Command) -> None:
    first = await as_admin("settings", "set", "--duplicates", "reject", "--trash-days", "7", "--json")
    second = await as_admin("settings", "set", "--quota-bytes", "1048576", "--allowed-types", "text/*, image/png")
    shown = await as_admin("settings", "show", "--json")

    assert (first.json["duplicates"], first.json["trash_days"]) == ("reject", 7)
    assert "1.0 MiB" in second.out
    assert {name: shown.json[name] for name in ("duplicates", "trash_days", "quota_bytes", "allowed_types")} == {
        "duplicates": "reject",
        "trash_days": 7,
        "quota_bytes": 1048576,
        "allowed_types": ["text/*", "image/png"],
    }


async def test_default_brings_the_services_own_back(as_admin: Command) -> None:
    await as_admin("settings", "set", "--quota-bytes", "5", "--max-upload-bytes", "5", "--allowed-types", "text/plain")

    result = await as_admin(
        "settings", "set", "--quota-bytes", "default", "--max-upload-bytes", "default", "--allowed-types", "default"
    )
    shown = await as_admin("settings", "show", "--json")

    assert result.code == 0
    assert [shown.json[name] for name in ("quota_bytes", "max_upload_bytes", "allowed_types")] == [None, None, None]


@pytest.mark.parametrize("arguments", [[], ["--quota-bytes", "much"], ["--duplicates", "sometimes"]])
async def test_a_wrong_command_line_ends_with_2(as_admin: Command, arguments: list[str]) -> None:
    result = await as_admin("settings", "set", *arguments)

    assert result.code == 2


async def test_settings_are_for_admins(nexarch: Command) -> None:
    result = await nexarch("settings", "show")

    assert result.code == 4
