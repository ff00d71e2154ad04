"""Metering: what a tenant stores, for its quota and for core-api, kept in the transactions that change it.

The schema keeps the tenant's own counter (`storage_usage`) at the sum of its stored objects. core-api is told of every
change through the outbox.
"""

from dataclasses import dataclass

from nexarch.db import Connection, fetch_one
from nexarch.errors import InsufficientStorage

STORAGE_BYTES = "storage_bytes"


class QuotaExceeded(InsufficientStorage):
    """The file would take the tenant over its quota; `used_bytes` of `quota_bytes` are taken (RFC 4331, 6)."""

    code = "quota-exceeded"
    title = "The quota is used up"
    again_s = None  # a person has to make room first


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """What a tenant stores and may store, in bytes of plaintext."""

    used_bytes: int
    quota_bytes: int | None  # None: no limit


async def record_storage(conn: Connection, delta_bytes: int) -> None:
    """Put a change of the stored plaintext bytes into the outbox; delivery to core-api comes after the commit."""
    sql = "INSERT INTO usage_outbox (metric, delta) VALUES ($1, $2)"
    await conn.execute(sql, STORAGE_BYTES, delta_bytes)


async def storage_use(conn: Connection) -> StorageUse:
    """What the tenant stores, in a transaction with what that has changed itself, and what it may."""
    sql = "SELECT used_bytes, quota_bytes FROM storage_usage, tenant_settings"
    return await fetch_one(conn, StorageUse, sql)


async def check_quota(conn: Connection, *, coming_bytes: int) -> None:
    """Raise QuotaExceeded if the tenant's quota has no room for so many bytes.

    With 0, after a transaction has stored something, this is exact: nobody else stores until the transaction ends.
    Before, it may be overtaken by others.
    """
    use = await storage_use(conn)
    if use.quota_bytes is not None and use.used_bytes + coming_bytes > use.quota_bytes:
        raise QuotaExceeded(
            "There is no room for this file: remove documents from the trash for good, or have the quota raised.",
            used_bytes=use.used_bytes,
            quota_bytes=use.quota_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """What the tenant's counter said, what core-api had been told or was about to be, and what is stored; in bytes."""

    before_bytes: int
    told_bytes: int
    stored_bytes: int


async def recount_storage(conn: Connection) -> Recount:
    """Set the counter to what is stored, and have core-api told of what it was not told of.

    Call it in a transaction; who stores or removes meanwhile waits. The two are counted apart: a counter that was
    wrong here alone must not become wrong there.
    """
    await _hold_counter(conn)
    before = await _count(conn)
    told = await _told(conn)
    stored = (await storage_use(conn)).used_bytes
    if stored != told:
        await record_storage(conn, stored - told)
    return Recount(before_bytes=before, told_bytes=told, stored_bytes=stored)


async def forget_delivered(conn: Connection, kept_s: float, limit: int) -> int:
    """Remove rows of the outbox that core-api confirmed longer ago than `kept_s` seconds, but not their sum.

    Returns how many. Call it in a transaction.
    """
    sql = """
        WITH gone AS (
            DELETE FROM usage_outbox
            WHERE id IN (
                SELECT id
                FROM usage_outbox
                WHERE id < uuidv7(make_interval(secs => -$2::float8))
                    AND delivered_at < now() - make_interval(secs => $2)
                ORDER BY id
                LIMIT $3
            )
            RETURNING metric, delta
        ), kept AS (
            UPDATE storage_usage
            SET forgotten_bytes = forgotten_bytes + (SELECT coalesce(sum(delta), 0) FROM gone WHERE metric = $1)
        )
        SELECT count(*) FROM gone
    """
    await _hold_counter(conn)
    count: int = await conn.fetchval(sql, STORAGE_BYTES, kept_s, limit)
    return count


async def _hold_counter(conn: Connection) -> None:
    """In a statement of its own: only the next one sees what those stored who held it before."""
    await conn.execute("SELECT FROM storage_usage FOR UPDATE")


async def _count(conn: Connection) -> int:
    """Set the counter right and return what it was."""
    sql = """
        UPDATE storage_usage
        SET used_bytes = (SELECT coalesce(sum(size_bytes), 0) FROM stored_objects)
        RETURNING old.used_bytes
    """
    before: int = await conn.fetchval(sql)
    return before


async def _told(conn: Connection) -> int:
    """All that ever went into the outbox; who writes into it holds the counter."""
    sql = """
        SELECT (forgotten_bytes + (SELECT coalesce(sum(delta), 0) FROM usage_outbox WHERE metric = $1))::bigint
        FROM storage_usage
    """
    told: int = await conn.fetchval(sql, STORAGE_BYTES)
    return told
