"""The objects that a tenant's rows refer to, as the check of the store needs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from nexarch.db import Connection, fetch_all, fetch_optional


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """Some columns of `stored_objects`."""

    storage_key: str
    size_bytes: int  # of the plaintext


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedObject:
    """An object with one of the revisions that refer to it: what opens it, and what it then must be."""

    storage_key: str
    size_bytes: int
    document_id: UUID
    revision_id: UUID
    checksum_sha256: bytes
    wrapped_dek: bytes
    kek_version: int


async def any_object(conn: Connection) -> bool:
    """Whether a row refers to anything in the store."""
    found: bool = await conn.fetchval("SELECT EXISTS (SELECT FROM stored_objects)")
    return found


async def count_objects(conn: Connection) -> int:
    """How many objects the rows refer to."""
    count: int = await conn.fetchval("SELECT count(*) FROM stored_objects")
    return count


async def objects_between(conn: Connection, after: str, last: str | None, limit: int) -> list[ObjectRow]:
    """The rows behind the key `after` up to and with `last` (None: to the end), in the order of a store's listing."""
    sql = """
        SELECT storage_key, size_bytes
        FROM stored_objects
        WHERE storage_key COLLATE "C" > $1 AND ($2::text IS NULL OR storage_key COLLATE "C" <= $2)
        ORDER BY storage_key COLLATE "C"
        LIMIT $3
    """
    return await fetch_all(conn, ObjectRow, sql, after, last, limit)


async def doomed_among(conn: Connection, keys: Sequence[str]) -> set[str]:
    """Those of the keys that are to be deleted anyway."""
    sql = "SELECT storage_key FROM doomed_objects WHERE storage_key = ANY($1)"
    return {row["storage_key"] for row in await conn.fetch(sql, keys)}


async def doom_orphans(conn: Connection, keys: Sequence[str], sizes: Sequence[int | None]) -> list[str]:
    """Doom those of the objects that no row refers to, nor can: they may be deleted. Returns their keys.

    `sizes` are those of their plaintexts; None: they are no objects of ours. An upload puts its object before it
    writes its row, and may take any time for that; but it needs its session open to the end. So what was no orphan
    a moment ago, or will be none a moment later, has in this one snapshot a row, or an open session of its size.
    """
    sql = """
        INSERT INTO doomed_objects (storage_key)
        SELECT found.storage_key
        FROM unnest($1::text[], $2::bigint[]) AS found (storage_key, size_bytes)
        WHERE NOT EXISTS (SELECT FROM stored_objects AS o WHERE o.storage_key = found.storage_key)
            AND NOT EXISTS (SELECT FROM upload_sessions AS s
                            WHERE s.state = 'open' AND s.size_bytes = found.size_bytes)
        ON CONFLICT DO NOTHING
        RETURNING storage_key
    """
    return [row["storage_key"] for row in await conn.fetch(sql, keys, sizes)]


async def next_to_read(conn: Connection, before: datetime) -> SealedObject | None:
    """The object whose bytes are to be read next: one that was damaged, else the one not read for the longest time.

    None if all were read since `before`.
    """
    sql = """
        WITH damaged AS (
            SELECT storage_key
            FROM stored_objects
            WHERE damage IS NOT NULL AND checked_at < $1
            ORDER BY storage_key
            LIMIT 1
        ), oldest AS (
            SELECT storage_key
            FROM stored_objects
            WHERE checked_at IS NULL OR checked_at < $1
            ORDER BY checked_at NULLS FIRST, storage_key
            LIMIT 1
        )
        SELECT o.storage_key, o.size_bytes, r.document_id, r.id AS revision_id, r.checksum_sha256, r.wrapped_dek,
            r.kek_version
        FROM stored_objects AS o JOIN file_revisions AS r ON r.storage_key = o.storage_key
        WHERE o.storage_key = coalesce((SELECT storage_key FROM damaged), (SELECT storage_key FROM oldest))
        ORDER BY r.id
        LIMIT 1
    """
    return await fetch_optional(conn, SealedObject, sql, before)


async def mark_well(conn: Connection, key: str) -> bool:
    """Note that an object was read and is what it must be; True if it was damaged before."""
    sql = """
        UPDATE stored_objects
        SET checked_at = now(), damage = NULL
        WHERE storage_key = $1
        RETURNING old.damage IS NOT NULL
    """
    return bool(await conn.fetchval(sql, key))


async def mark_unread(conn: Connection, key: str) -> bool:
    """Note that an object's turn is over though it could not be read; False if it is not in use any more."""
    sql = "UPDATE stored_objects SET checked_at = now() WHERE storage_key = $1 RETURNING true"
    return await conn.fetchval(sql, key) is not None


async def mark_damaged(conn: Connection, keys: Sequence[str], damage: str) -> list[str]:
    """Note what is wrong with objects; returns the keys of those that are still in use."""
    sql = """
        UPDATE stored_objects
        SET checked_at = now(), damage = $2
        WHERE storage_key = ANY(ARRAY(
            SELECT storage_key FROM stored_objects WHERE storage_key = ANY($1) ORDER BY storage_key FOR NO KEY UPDATE
        ))
        RETURNING storage_key
    """
    return [row["storage_key"] for row in await conn.fetch(sql, keys, damage)]
