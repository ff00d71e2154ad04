"""`nexarch bootstrap`: a new PostgreSQL server to a platform that can start."""

import asyncio
from pathlib import Path

import click

from nexarch.bootstrap import BootstrapFailed
from nexarch.bootstrap import bootstrap as bring_up
from nexarch.cli.databases import reaching
from nexarch.cli.failures import Failure
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_json, show_table
from nexarch.private_files import SecretFolder


@click.command()
@click.option(
    "--superuser-dsn",
    envvar="NEXARCH_SUPERUSER_DSN",
    required=True,
    help="Address of the server as its superuser; better in NEXARCH_SUPERUSER_DSN, where `ps` does not show it.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the secrets, one a file, readable by the owner alone.",
)
@shared_options
@pass_options
def bootstrap(options: Options, *, superuser_dsn: str, out: Path) -> None:
    """Prepare a PostgreSQL server.

    Roles, registry, keys, the first operator, the modules' credentials.

    Done again with the same folder, it makes what is missing and changes nothing else. Keep the folder: the
    master key in it opens every document.
    """
    asyncio.run(_bootstrap(superuser_dsn, SecretFolder(out)))
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    if options.json:
        show_json({"folder": str(out), "files": files})
    else:
        show_table(["secret", "file"], [(name, str(out / name)) for name in files])
        note("Keep this folder safe: the master key in it opens every document.")


async def _bootstrap(superuser_dsn: str, folder: SecretFolder) -> None:
    try:
        with reaching("PostgreSQL"):
            await bring_up(superuser_dsn, folder)
    except BootstrapFailed as error:
        raise Failure(f"core-api's bootstrap failed: {error}") from error
