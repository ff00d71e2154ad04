"""The command `nexarch` for somebody with a token."""

from pathlib import Path

from support.command import Command
from support.ingest import Person
from support.services import CoreApi


def user_command(home: Path, core_api: CoreApi, person: Person, ingest_url: str) -> Command:
    """The command with these addresses; the same `home` remembers its unfinished uploads."""
    home.mkdir(exist_ok=True)
    variables = {"NEXARCH_CORE_URL": core_api.url, "NEXARCH_INGEST_URL": ingest_url, "NEXARCH_TOKEN": person.token}
    return Command(home, variables)
