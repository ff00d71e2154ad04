"""A new PostgreSQL server to a platform that can start, in two steps.

As superuser the roles and the registry database (`nexarch.bootstrap_db`); then, as `nexarch_core`, core-api's own
bootstrap: schema, keys, the first operator, the modules' credentials. That one runs as a process of its own, since
nothing here may import a service.
"""

import asyncio
import os
import sys

from nexarch.bootstrap_db import bus_dsn, core_dsn, create_roles_and_registry
from nexarch.private_files import SecretFolder


class BootstrapFailed(Exception):
    """core-api's bootstrap refused, or could not reach the registry; the text is what it said."""


async def bootstrap(superuser_dsn: str, folder: SecretFolder) -> None:
    """Make what is missing on the server and in the folder, and change nothing else.

    `BootstrapFailed`, and the driver's errors where the superuser cannot connect or is none.
    """
    core_password, bus_password = folder.password("core-password"), folder.password("bus-password")
    await create_roles_and_registry(superuser_dsn, core_password, bus_password)
    folder.write("registry-dsn", core_dsn(superuser_dsn, core_password))
    folder.write("bus-dsn", bus_dsn(superuser_dsn, bus_password))
    folder.key("master-key")
    folder.key("link-key")
    await _bootstrap_core(folder)


async def _bootstrap_core(folder: SecretFolder) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CORE_API_")}
    environment |= {
        "CORE_API_REGISTRY_DSN_FILE": str(folder.file("registry-dsn")),
        "CORE_API_MASTER_KEY_FILE": str(folder.file("master-key")),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "core_api.bootstrap", "--out", str(folder.path),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    if process.returncode != 0:
        said = output.decode(errors="replace").strip()
        raise BootstrapFailed(said or f"core-api's bootstrap ended with {process.returncode}.")
