"""The keys of objects as rows hold them: wrapped under a version of the tenant's key."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection, fetch_all


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """The key columns of one row of `file_revisions`; `wrapped` has 60 bytes."""

    id: UUID
    wrapped: bytes
    kek_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """A row's key as it was read, and the same key wrapped anew."""

    old: WrappedKey
    new: WrappedKey


async def older_keys(conn: Connection, below: int, *, after: UUID | None, limit: int) -> list[WrappedKey]:
    """The next revisions by id whose keys are wrapped under a version below this one."""
    sql = """
        SELECT id, wrapped_dek AS wrapped, kek_version
        FROM file_revisions
        WHERE kek_version < $1 AND id > coalesce($2, '00000000-0000-0000-0000-000000000000'::uuid)
        ORDER BY id
        LIMIT $3
    """
    return await fetch_all(conn, WrappedKey, sql, below, after, limit)


async def replace_keys(conn: Connection, keys: Sequence[Rewrapped]) -> None:
    """Write each new key where the old one still stands, all or none; a row that changed meanwhile keeps its own.

    Give the keys in the order of their ids: two who do this at once then wait for each other, without a deadlock.
    """
    sql = """
        UPDATE file_revisions
        SET wrapped_dek = $4, kek_version = $5
        WHERE id = $1 AND wrapped_dek = $2 AND kek_version = $3
    """
    rows = [(key.old.id, key.old.wrapped, key.old.kek_version, key.new.wrapped, key.new.kek_version) for key in keys]
    await conn.executemany(sql, rows)
