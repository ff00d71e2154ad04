"""Keys as rows hold them, wrapped under a version of the tenant's key: of objects, and of uploads' staged bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection, fetch_all


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """The key columns of one row; `wrapped` has 60 bytes."""

    id: UUID
    wrapped: bytes
    kek_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """A row's key as it was read, and the same key wrapped anew."""

    old: WrappedKey
    new: WrappedKey

    @property
    def values(self) -> tuple[UUID, bytes, int, bytes, int]:
        """Id, then the key and version to be replaced, then the new ones."""
        return self.old.id, self.old.wrapped, self.old.kek_version, self.new.wrapped, self.new.kek_version


async def older_object_keys(conn: Connection, below: int, *, after: UUID, limit: int) -> list[WrappedKey]:
    """The next revisions by id whose keys are wrapped under a version below this one."""
    sql = """
        SELECT id, wrapped_dek AS wrapped, kek_version
        FROM file_revisions
        WHERE kek_version < $1 AND id > $2
        ORDER BY id
        LIMIT $3
    """
    return await fetch_all(conn, WrappedKey, sql, below, after, limit)


async def older_staging_keys(conn: Connection, below: int, *, after: UUID, limit: int) -> list[WrappedKey]:
    """The same for upload sessions; one that is over has no key."""
    sql = """
        SELECT id, wrapped_key AS wrapped, kek_version
        FROM upload_sessions
        WHERE kek_version < $1 AND id > $2
        ORDER BY id
        LIMIT $3
    """
    return await fetch_all(conn, WrappedKey, sql, below, after, limit)


async def replace_object_keys(conn: Connection, keys: Sequence[Rewrapped]) -> None:
    """Write each new key where the old one still stands, all or none; a row that changed meanwhile keeps its own.

    Give the keys in the order of their ids: two who do this at once then wait for each other, without a deadlock.
    """
    sql = """
        UPDATE file_revisions
        SET wrapped_dek = $4, kek_version = $5
        WHERE id = $1 AND wrapped_dek = $2 AND kek_version = $3
    """
    await conn.executemany(sql, [key.values for key in keys])


async def replace_staging_keys(conn: Connection, keys: Sequence[Rewrapped]) -> None:
    """The same for upload sessions."""
    sql = """
        UPDATE upload_sessions
        SET wrapped_key = $4, kek_version = $5
        WHERE id = $1 AND wrapped_key = $2 AND kek_version = $3
    """
    await conn.executemany(sql, [key.values for key in keys])
