"""Tenants' key-encryption keys (KEKs): 32 random bytes per version, sealed under the master key.

Their only use is to wrap the keys of objects (`nexarch.crypto.envelope`). They leave core-api for one wrapping at a
time and are kept nowhere else.
"""

import secrets
from dataclasses import dataclass
from uuid import UUID

from core_api.master_key import MasterKey
from nexarch.crypto.envelope import KEY_LENGTH
from nexarch.db import Connection, fetch_optional
from nexarch.errors import NotFound

_PURPOSE = "nexarch/kek/1"


class NoSuchKey(NotFound):
    """The tenant never had a key of this version, or it is retired."""

    code = "kek-not-found"
    title = "There is no such key version"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKey:
    """One row of `tenant_keys`."""

    version: int
    sealed_kek: bytes


async def create_first_key(conn: Connection, master: MasterKey, tenant_id: UUID) -> None:
    """Give a tenant its key of version 1; nothing changes if it has one."""
    sql = """
        INSERT INTO tenant_keys (tenant_id, version, sealed_kek)
        VALUES ($1, 1, $2)
        ON CONFLICT (tenant_id, version) DO NOTHING
    """
    sealed = master.seal(secrets.token_bytes(KEY_LENGTH), _PURPOSE, *_owner(tenant_id, 1))
    await conn.execute(sql, tenant_id, sealed)


async def open_key(
    conn: Connection, master: MasterKey, tenant_id: UUID, version: int | None = None
) -> tuple[bytes, int]:
    """The KEK (32 bytes) and its version: the active one, or an older one that is not retired; `NoSuchKey`."""
    sealed = await (_active_key(conn, tenant_id) if version is None else _key(conn, tenant_id, version))
    if sealed is None:
        raise NoSuchKey("The tenant has no such key version, or it is retired.")
    kek = master.open(sealed.sealed_kek, _PURPOSE, *_owner(tenant_id, sealed.version))
    return kek, sealed.version


async def _active_key(conn: Connection, tenant_id: UUID) -> SealedKey | None:
    sql = "SELECT version, sealed_kek FROM tenant_keys WHERE tenant_id = $1 AND state = 'active'"
    return await fetch_optional(conn, SealedKey, sql, tenant_id)


async def _key(conn: Connection, tenant_id: UUID, version: int) -> SealedKey | None:
    sql = """
        SELECT version, sealed_kek
          FROM tenant_keys
         WHERE tenant_id = $1 AND version = $2 AND state <> 'retired'
    """
    return await fetch_optional(conn, SealedKey, sql, tenant_id, version)


def _owner(tenant_id: UUID, version: int) -> tuple[bytes, bytes]:
    return tenant_id.bytes, version.to_bytes(4, "big")
