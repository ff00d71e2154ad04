from pathlib import Path

import pytest

from support.command import Command
from support.services import CoreApi


@pytest.fixture
def operator(core_api: CoreApi, tmp_path: Path) -> Command:
    """The command for an operator of the running core-api."""
    home = tmp_path / "home"
    home.mkdir()
    return Command(home, {"NEXARCH_CORE_URL": core_api.url, "NEXARCH_OPERATOR_TOKEN": core_api.operator_token})
