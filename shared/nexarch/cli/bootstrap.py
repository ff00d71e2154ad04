"""`nexarch bootstrap`: a new PostgreSQL server to a platform that can start.

Two steps: as superuser the roles and the registry database; then, as `nexarch_core`, core-api's own bootstrap
(schema, keys, the first operator, the modules' credentials).
"""

import asyncio
import base64
import os
import secrets
import subprocess
import sys
from pathlib import Path

import click

from nexarch.bootstrap_db import bus_dsn, core_dsn, create_roles_and_registry
from nexarch.cli.databases import reaching
from nexarch.cli.failures import Failure
from nexarch.cli.options import Options, pass_options, shared_options
from nexarch.cli.output import note, show_json, show_table
from nexarch.cli.private_files import write_private


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
    folder = _SecretFolder(out)
    core_password, bus_password = folder.get_or_make("core-password"), folder.get_or_make("bus-password")
    asyncio.run(_create_roles(superuser_dsn, core_password, bus_password))
    folder.write("registry-dsn", core_dsn(superuser_dsn, core_password))
    folder.write("bus-dsn", bus_dsn(superuser_dsn, bus_password))
    folder.get_or_make("master-key", key=True)
    folder.get_or_make("link-key", key=True)
    _bootstrap_core(out)
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    if options.json:
        show_json({"folder": str(out), "files": files})
    else:
        show_table(["secret", "file"], [(name, str(out / name)) for name in files])
        note("Keep this folder safe: the master key in it opens every document.")


async def _create_roles(superuser_dsn: str, core_password: str, bus_password: str) -> None:
    with reaching("PostgreSQL"):
        await create_roles_and_registry(superuser_dsn, core_password, bus_password)


def _bootstrap_core(out: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CORE_API_")}
    environment |= {
        "CORE_API_REGISTRY_DSN_FILE": str(out / "registry-dsn"),
        "CORE_API_MASTER_KEY_FILE": str(out / "master-key"),
    }
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "core_api.bootstrap", "--out", str(out)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(f"core-api's bootstrap failed: {lines[-1] if lines else 'without a word'}")


class _SecretFolder:
    """Secrets, one a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_or_make(self, name: str, *, key: bool = False) -> str:
        """The secret of this name, made at first use: a password, or with `key` 32 bytes in base64."""
        path = self._folder / name
        if not path.exists():
            made = base64.b64encode(secrets.token_bytes(32)).decode() if key else secrets.token_urlsafe(24)
            self.write(name, made)
        return path.read_text(encoding="utf-8").strip()

    def write(self, name: str, value: str) -> None:
        """Put a secret into its file."""
        write_private(self._folder / name, value + "\n")
