"""Tenants' key-encryption keys (KEKs): 32 random bytes per version, sealed under the master key.

Their only use is to wrap the keys of objects (`nexarch.crypto.envelope`). They leave core-api for one wrapping at a
time and are kept nowhere else. The newest version is `active`; older ones are `retiring` while rows still name them,
then `retired`. `core_api.key_rotation` leads from one state to the next.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from core_api.master_key import MasterKey
from nexarch.core_client import KeyRetired, KeyShredded
from nexarch.crypto.envelope import KEY_LENGTH
from nexarch.db import Connection, fetch_all, fetch_optional
from nexarch.errors import Conflict, NotFound

PURPOSE = "nexarch/kek/1"


class NoSuchKey(NotFound):
    """The tenant never had a key of this version."""

    code = "kek-not-found"
    title = "There is no such key version"


class KeyRotationRunning(Conflict):
    """Somebody else rotated the tenant's key at the same moment."""

    code = "kek-rotation-running"
    title = "The tenant's key is being rotated"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyVersion:
    """One row of `tenant_keys`, without the key."""

    version: int
    state: str  # active, retiring, retired or shredded
    created_at: datetime
    retired_at: datetime | None
    shredded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sealed:
    version: int
    state: str
    sealed_kek: bytes | None


async def create_first_key(conn: Connection, master: MasterKey, tenant_id: UUID) -> None:
    """Give a tenant its key of version 1; nothing changes if it has one, or had one that was shredded."""
    sql = """
        INSERT INTO tenant_keys (tenant_id, version, sealed_kek)
        VALUES ($1, 1, $2)
        ON CONFLICT (tenant_id, version) DO NOTHING
    """
    await conn.execute(sql, tenant_id, _new_sealed_kek(master, tenant_id, 1))


async def open_key(
    conn: Connection, master: MasterKey, tenant_id: UUID, version: int | None = None
) -> tuple[bytes, int]:
    """The KEK (32 bytes) and its version: the active one, or an older one that is not retired.

    `NoSuchKey`, `KeyRetired`, `KeyShredded`.
    """
    sealed = await (_newest_key(conn, tenant_id) if version is None else _key(conn, tenant_id, version))
    if sealed is None:
        raise NoSuchKey("The tenant has no such key version.")
    if sealed.sealed_kek is None:
        raise KeyShredded
    if sealed.state == "retired":
        raise KeyRetired
    kek = master.open(sealed.sealed_kek, PURPOSE, *owner(tenant_id, sealed.version))
    return kek, sealed.version


async def list_versions(conn: Connection, tenant_id: UUID) -> list[KeyVersion]:
    """All versions of the tenant's key, newest first."""
    sql = """
        SELECT version, state, created_at, retired_at, shredded_at
          FROM tenant_keys
         WHERE tenant_id = $1
         ORDER BY version DESC
    """
    return await fetch_all(conn, KeyVersion, sql, tenant_id)


async def check_not_shredded(conn: Connection, tenant_id: UUID) -> None:
    """`KeyShredded` if the tenant's keys are destroyed."""
    sql = "SELECT EXISTS (SELECT FROM tenant_keys WHERE tenant_id = $1 AND state = 'shredded')"
    if await conn.fetchval(sql, tenant_id):
        raise KeyShredded


async def add_version(conn: Connection, master: MasterKey, tenant_id: UUID, version: int) -> None:
    """Wrap under a new key from now on; the one before only unwraps. Call it in a transaction.

    `KeyRotationRunning` if the version exists.
    """
    sql = "INSERT INTO tenant_keys (tenant_id, version, sealed_kek) VALUES ($1, $2, $3)"
    await _stop_wrapping(conn, tenant_id)
    try:
        await conn.execute(sql, tenant_id, version, _new_sealed_kek(master, tenant_id, version))
    except asyncpg.UniqueViolationError as error:
        raise KeyRotationRunning("Somebody else rotated the tenant's key at this moment.") from error


async def retire_version(conn: Connection, tenant_id: UUID, version: int) -> None:
    """Give the key out no more; fine if it is retired. First see to it that nothing can name this version again."""
    sql = """
        UPDATE tenant_keys
           SET state = 'retired', retired_at = now()
         WHERE tenant_id = $1 AND version = $2 AND state = 'retiring'
    """
    await conn.execute(sql, tenant_id, version)


async def shred_versions(conn: Connection, tenant_id: UUID) -> None:
    """Destroy the tenant's keys, retired ones too; the versions' rows stay, so that none is ever made anew."""
    sql = """
        UPDATE tenant_keys
           SET state = 'shredded', sealed_kek = NULL, shredded_at = now()
         WHERE tenant_id = $1 AND state <> 'shredded'
    """
    await conn.execute(sql, tenant_id)


async def _stop_wrapping(conn: Connection, tenant_id: UUID) -> None:
    sql = "UPDATE tenant_keys SET state = 'retiring' WHERE tenant_id = $1 AND state = 'active'"
    await conn.execute(sql, tenant_id)


async def _newest_key(conn: Connection, tenant_id: UUID) -> _Sealed | None:
    sql = """
        SELECT version, state, sealed_kek
          FROM tenant_keys
         WHERE tenant_id = $1
         ORDER BY version DESC
         LIMIT 1
    """
    return await fetch_optional(conn, _Sealed, sql, tenant_id)


async def _key(conn: Connection, tenant_id: UUID, version: int) -> _Sealed | None:
    sql = "SELECT version, state, sealed_kek FROM tenant_keys WHERE tenant_id = $1 AND version = $2"
    return await fetch_optional(conn, _Sealed, sql, tenant_id, version)


def _new_sealed_kek(master: MasterKey, tenant_id: UUID, version: int) -> bytes:
    return master.seal(secrets.token_bytes(KEY_LENGTH), PURPOSE, *owner(tenant_id, version))


def owner(tenant_id: UUID, version: int) -> tuple[bytes, bytes]:
    """What a sealed KEK is bound to, beside its purpose."""
    return tenant_id.bytes, version.to_bytes(4, "big")
