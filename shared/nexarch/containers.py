"""The secrets of the containers: made once, and each handed to those that need it and to nobody else.

`python -m nexarch.containers prepare`    what the database server and the object store start with
`python -m nexarch.containers bootstrap`  roles, registry, keys and credentials, on the server that runs by then

Below one folder lies a folder for each holder, a volume of its own in `docker-compose.yml`. A service sees its own and
no other; `platform` holds everything, and only these two commands see it. Run as often as wanted: what is there stays.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import asyncpg

from nexarch.bootstrap import BootstrapFailed, bootstrap
from nexarch.migrate_tenants import MigrationFailed, migrate_every_tenant
from nexarch.private_files import SecretFolder

# Which secrets each service reads: the names of the files in its folder.
SERVICES: dict[str, tuple[str, ...]] = {
    "core-api": ("registry-dsn", "master-key"),
    "dms-ingest": (
        "dms_ingest.client-id",
        "dms_ingest.client-secret",
        "dms_ingest.s3-access-key",
        "dms_ingest.s3-secret-key",
        "bus-dsn",
        "link-key",
    ),
    "dms-worker": (
        "dms_worker.client-id",
        "dms_worker.client-secret",
        "dms_worker.s3-access-key",
        "dms_worker.s3-secret-key",
        "bus-dsn",
    ),
    "alerter": ("alerter.client-id", "alerter.client-secret"),
}
# These use the object store, each with a key of its own.
_STORING = ("dms_ingest", "dms_worker")

_ALL = "platform"
_SUPERUSER = "superuser-password"
_S3_CONFIG = "s3.json"
_MODE = 0o640  # the database server runs as a user of its own, in the group of the volumes


def prepare(root: Path) -> None:
    """Make the password of the database's superuser and the keys of the object store."""
    everything = SecretFolder(root / _ALL)
    everything.password(_SUPERUSER)
    everything.write(_S3_CONFIG, _s3_config(everything))
    _hand_out(root, "postgres", [_SUPERUSER])
    _hand_out(root, "object-store", [_S3_CONFIG])


async def bring_up(root: Path, postgres: str) -> None:
    """Bootstrap the platform on the server at `postgres` (host:port), and bring the tenants' databases up to date.

    Raises BootstrapFailed, MigrationFailed and the driver's errors.
    """
    everything = SecretFolder(root / _ALL)
    password = everything.password(_SUPERUSER)
    await bootstrap(f"postgresql://postgres:{quote(password, safe='')}@{postgres}/postgres", everything)
    registry_dsn = everything.read("registry-dsn")
    assert registry_dsn is not None  # the bootstrap has written it
    await migrate_every_tenant(registry_dsn)
    for service, names in SERVICES.items():
        _hand_out(root, service, names)


def _s3_config(everything: SecretFolder) -> str:
    """The identities of the object store, in SeaweedFS's form: who holds which key, and may do what."""
    identities = [
        {
            "name": module,
            "credentials": [
                {
                    "accessKey": everything.password(f"{module}.s3-access-key"),
                    "secretKey": everything.password(f"{module}.s3-secret-key"),
                }
            ],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        for module in _STORING
    ]
    return json.dumps({"identities": identities}, indent=2)


def _hand_out(root: Path, holder: str, names: Iterable[str]) -> None:
    """Copy secrets into the folder of one holder, where they are readable by its group too."""
    everything, folder = SecretFolder(root / _ALL), SecretFolder(root / holder)
    for name in names:
        secret = everything.read(name)
        assert secret is not None, name
        folder.write(name, secret)
        folder.file(name).chmod(_MODE)


def main() -> None:
    """The command; exits with 1 where the platform cannot be brought up."""
    parser = argparse.ArgumentParser(prog="python -m nexarch.containers", description="The secrets of the containers.")
    parser.add_argument("step", choices=["prepare", "bootstrap"])
    parser.add_argument("--root", type=Path, default=Path("/secrets"), help="folder with a folder for each holder")
    parser.add_argument("--postgres", default="postgres:5432", help="host:port of the database server")
    arguments = parser.parse_args()
    if arguments.step == "prepare":
        prepare(arguments.root)
        return
    try:
        asyncio.run(bring_up(arguments.root, arguments.postgres))
    except (BootstrapFailed, MigrationFailed) as error:
        sys.exit(str(error))
    except (asyncpg.PostgresError, OSError) as error:
        sys.exit(f"The database server cannot be set up: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
