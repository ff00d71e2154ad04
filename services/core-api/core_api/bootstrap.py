"""Makes an empty registry database usable: `python -m core_api.bootstrap --out DIR`.

Migrations, the template of tenant databases, the first operator, the first signing key, the platform's own modules
with a credential each. Secrets are written to files (`operator-token`, `<module>.client-id`, `<module>.client-secret`)
before the registry knows them: whoever dies in between starts again and goes on with the same secrets. Run as often as
wanted, it adds what is missing and changes nothing that operators changed.
"""

import argparse
import asyncio
import sys
from importlib.metadata import version
from pathlib import Path

import asyncpg

from core_api import credentials, operators, signing_keys
from core_api.flags import add_flag_for_all
from core_api.master_key import MasterKey
from core_api.modules import ModuleExists, Scope, register_module
from core_api.secret_text import new_module_secret, new_operator_token
from core_api.settings import Settings
from nexarch.crypto.envelope import SealBroken
from nexarch.db import Connection, connect
from nexarch.migrate import MigrationRefused, migrate_up, read_migrations
from nexarch.private_files import SecretFolder
from nexarch.settings import load
from nexarch.template import ensure_template

MODULES: dict[str, frozenset[Scope]] = {
    "dms_ingest": frozenset({Scope.DATABASE, Scope.KEK, Scope.USAGE}),
    "dms_worker": frozenset({Scope.DATABASE, Scope.KEK}),
    "alerter": frozenset(),
}
FLAG = "dms"
OPERATOR = "bootstrap"
OPERATOR_FILE = "operator-token"

_LOCK = 0x6E657862  # "nexb"


class BootstrapRefused(Exception):
    """The registry holds a secret that the folder or the master key does not fit; the text says what to do."""


async def bootstrap(settings: Settings, folder: SecretFolder) -> list[str]:
    """Do what is still to do; returns a sentence for each thing done. `BootstrapRefused`, `MigrationRefused`."""
    done = []
    master = MasterKey(settings.master_key)
    dsn = settings.registry_dsn.get_secret_value()
    conn = await connect(dsn, application_name="core-api-bootstrap")
    try:
        await conn.execute("SELECT pg_advisory_lock($1)", _LOCK)  # let go when the connection closes
        done += [f"registry migrated to {number:04}" for number in await migrate_up(conn, read_migrations("registry"))]
        await ensure_template(dsn)
        done += await _first_operator(conn, folder)
        done += await _first_signing_key(conn, master, settings.token_ttl_s)
        done += await _modules(conn)
        for module_id in MODULES:
            done += await _credential(conn, folder, module_id)
    finally:
        await conn.close()
    return done


async def _first_operator(conn: Connection, folder: SecretFolder) -> list[str]:
    if await operators.any_operator(conn):
        return []
    token = folder.read(OPERATOR_FILE)
    if token is None:
        token = new_operator_token()
        folder.write(OPERATOR_FILE, token)
    await operators.add_operator(conn, OPERATOR, token)
    return [f"operator {OPERATOR} made; the token is in {folder.path / OPERATOR_FILE}"]


async def _first_signing_key(conn: Connection, master: MasterKey, token_ttl_s: int) -> list[str]:
    if await signing_keys.published_keys(conn):
        await _check_master_key(conn, master)
        return []
    key = await signing_keys.rotate_keys(conn, master, token_ttl_s)
    return [f"signing key {key.kid} made"]


async def _check_master_key(conn: Connection, master: MasterKey) -> None:
    try:
        await signing_keys.active_key(conn, master)
    except SealBroken as error:
        raise BootstrapRefused("CORE_API_MASTER_KEY is not the one that this registry was made with.") from error


async def _modules(conn: Connection) -> list[str]:
    await add_flag_for_all(conn, FLAG, "The document modules; off for a tenant, they refuse to work for it.")
    done = []
    for module_id, scopes in MODULES.items():
        try:
            await register_module(conn, module_id, version("core-api"), [FLAG], scopes)
        except ModuleExists:
            continue
        done.append(f"module {module_id} registered")
    return done


async def _credential(conn: Connection, folder: SecretFolder, module_id: str) -> list[str]:
    client_id, secret = folder.read(f"{module_id}.client-id"), folder.read(f"{module_id}.client-secret")
    if client_id and secret and await credentials.find_service(conn, client_id, secret):
        return []
    if await credentials.any_live(conn, module_id):
        raise BootstrapRefused(
            f"{module_id} has a credential, but {folder.path} does not hold it. Copy {module_id}.client-id and "
            f"{module_id}.client-secret there, or revoke the credential with `force` and run bootstrap again."
        )
    if client_id is None or secret is None or await credentials.is_known(conn, client_id):
        client_id = credentials.new_client_id(module_id)
        secret = new_module_secret(client_id)
        folder.write(f"{module_id}.client-id", client_id)
        folder.write(f"{module_id}.client-secret", secret)
    await credentials.add_credential(conn, module_id, client_id, secret)
    return [f"credential of {module_id} made; it is in {folder.path}"]


def main() -> None:
    """The command; exits with 1 where bootstrap is refused, 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="python -m core_api.bootstrap", description="Make an empty registry usable.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the secrets made")
    folder = SecretFolder(parser.parse_args().out)
    try:
        done = asyncio.run(bootstrap(load(Settings), folder))
    except (BootstrapRefused, MigrationRefused) as error:
        sys.exit(f"Bootstrap refused. {error}")
    except (asyncpg.PostgresError, OSError) as error:
        sys.exit(f"The registry cannot be set up: {type(error).__name__}: {error}")
    for sentence in done or ["nothing to do"]:
        print(sentence)  # noqa: T201


if __name__ == "__main__":
    main()
