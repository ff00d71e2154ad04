"""Replaces the master key: seals anew, row by row, what an older one sealed.

Every place that holds something sealed under the master key is in `_PLACES`; a test compares that with the registry.
Each row is changed alone and only if it still holds what was read, so this may run while core-api does, be cut short
anywhere, and run again.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import asyncpg

from core_api import signing_keys, tenant_keys
from core_api.master_key import MasterKey
from core_api.provisioning import PASSWORD_PURPOSE
from core_api.settings import Settings
from nexarch.crypto.envelope import SealBroken
from nexarch.db import Connection, connect
from nexarch.settings import load


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed secret in a row: the row's key, what it is bound to, and the bytes."""

    row: tuple[Any, ...]
    owner: tuple[bytes, ...]
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many secrets a place holds, were sealed anew now, and are left: need an older key, or no key opens them."""

    place: str
    rows: int
    resealed: int
    left: int


@dataclass(frozen=True, slots=True)
class _Place:
    name: str  # table.column
    purpose: str
    read: Callable[[Connection], Awaitable[list[Sealed]]]
    replace: Callable[[Connection, Sealed, bytes], Awaitable[None]]


async def reseal(conn: Connection, master: MasterKey) -> list[Progress]:
    """Seal under the first master key what an older one sealed; a second look tells what is left."""
    return [await _reseal_place(conn, master, place) for place in _PLACES]


async def _reseal_place(conn: Connection, master: MasterKey, place: _Place) -> Progress:
    resealed = 0
    for row in await _left(conn, master, place):
        try:
            secret = master.open(row.sealed, place.purpose, *row.owner)
        except SealBroken:  # none of our keys opens it: it is counted as left
            continue
        await place.replace(conn, row, master.seal(secret, place.purpose, *row.owner))
        resealed += 1
    rows = len(await place.read(conn))
    return Progress(place=place.name, rows=rows, resealed=resealed, left=len(await _left(conn, master, place)))


async def _left(conn: Connection, master: MasterKey, place: _Place) -> list[Sealed]:
    rows = await place.read(conn)
    return [row for row in rows if not master.is_sealed_anew(row.sealed, place.purpose, *row.owner)]


async def _passwords(conn: Connection) -> list[Sealed]:
    sql = "SELECT id, sealed_password FROM tenants WHERE sealed_password IS NOT NULL ORDER BY id"
    return [Sealed((id_,), (id_.bytes,), sealed) for id_, sealed in await conn.fetch(sql)]


async def _replace_password(conn: Connection, row: Sealed, sealed: bytes) -> None:
    sql = "UPDATE tenants SET sealed_password = $3 WHERE id = $1 AND sealed_password = $2"
    await conn.execute(sql, *row.row, row.sealed, sealed)


async def _keks(conn: Connection) -> list[Sealed]:
    sql = "SELECT tenant_id, version, sealed_kek FROM tenant_keys WHERE sealed_kek IS NOT NULL ORDER BY 1, 2"
    return [
        Sealed((tenant_id, version), tenant_keys.owner(tenant_id, version), sealed)
        for tenant_id, version, sealed in await conn.fetch(sql)
    ]


async def _replace_kek(conn: Connection, row: Sealed, sealed: bytes) -> None:
    sql = "UPDATE tenant_keys SET sealed_kek = $4 WHERE tenant_id = $1 AND version = $2 AND sealed_kek = $3"
    await conn.execute(sql, *row.row, row.sealed, sealed)


async def _signing_keys(conn: Connection) -> list[Sealed]:
    sql = "SELECT kid, sealed_private_key FROM signing_keys ORDER BY kid"
    return [Sealed((kid,), (kid.encode(),), sealed) for kid, sealed in await conn.fetch(sql)]


async def _replace_signing_key(conn: Connection, row: Sealed, sealed: bytes) -> None:
    sql = "UPDATE signing_keys SET sealed_private_key = $3 WHERE kid = $1 AND sealed_private_key = $2"
    await conn.execute(sql, *row.row, row.sealed, sealed)


_PLACES = (
    _Place("tenants.sealed_password", PASSWORD_PURPOSE, _passwords, _replace_password),
    _Place("tenant_keys.sealed_kek", tenant_keys.PURPOSE, _keks, _replace_kek),
    _Place("signing_keys.sealed_private_key", signing_keys.PURPOSE, _signing_keys, _replace_signing_key),
)


async def _run(settings: Settings) -> list[Progress]:
    conn = await connect(settings.registry_dsn.get_secret_value(), application_name="core-api-resealing")
    try:
        return await reseal(conn, MasterKey(settings.master_key))
    finally:
        await conn.close()


def main() -> None:
    """`python -m core_api.resealing`: one JSON document; exits with 1 if something is left, 2 for wrong settings.

    `nexarch keys rotate-master` calls it and shows a table.
    """
    parser = argparse.ArgumentParser(prog="python -m core_api.resealing", description=__doc__)
    parser.parse_args()
    settings = load(Settings)
    try:
        places = asyncio.run(_run(settings))
    except (asyncpg.PostgresError, OSError) as error:
        sys.exit(f"The registry cannot be reached: {type(error).__name__}: {error}")
    print(json.dumps([asdict(place) for place in places]))  # noqa: T201
    sys.exit(1 if any(place.left for place in places) else 0)


if __name__ == "__main__":
    main()
