from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.breaking_line import Proxy, run_proxy
from support.command import Command
from support.ingest import Ingest, Person
from support.services import CoreApi
from support.user_command import user_command


@pytest.fixture
def operator(core_api: CoreApi, tmp_path: Path) -> Command:
    """The command for an operator of the running core-api."""
    home = tmp_path / "home"
    home.mkdir()
    return Command(home, {"NEXARCH_CORE_URL": core_api.url, "NEXARCH_OPERATOR_TOKEN": core_api.operator_token})


@pytest.fixture
async def proxy(ingest: Ingest) -> AsyncIterator[Proxy]:
    """A line to dms-ingest that can break."""
    async with run_proxy(ingest.url) as running:
        yield running


@pytest.fixture
def nexarch(tmp_path: Path, core_api: CoreApi, editor: Person, ingest: Ingest) -> Command:
    """The editor's command, straight to dms-ingest."""
    return user_command(tmp_path / "home", core_api, editor, ingest.url)


@pytest.fixture
def behind_proxy(tmp_path: Path, core_api: CoreApi, editor: Person, proxy: Proxy) -> Command:
    """The same editor's command over the line that can break."""
    return user_command(tmp_path / "home", core_api, editor, proxy.url)
