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


async def recount_storage(conn: Connection) -> int:
    """Set the counter to what is stored and return by how many bytes it was too low (below 0: too high).

    core-api is told of the difference too. Call it in a transaction; who stores or removes meanwhile waits.
    """
    await _hold_counter(conn)
    delta = await _count(conn)
    if delta:
        await record_storage(conn, delta)
    return delta


async def _hold_counter(conn: Connection) -> None:
    """In a statement of its own: only the next one sees what those stored who held it before."""
    await conn.execute("SELECT FROM storage_usage FOR UPDATE")


async def _count(conn: Connection) -> int:
    sql = """
        UPDATE storage_usage AS new
        SET used_bytes = (SELECT coalesce(sum(size_bytes), 0) FROM stored_objects)
        FROM storage_usage AS old
        RETURNING new.used_bytes - old.used_bytes
    """
    delta: int = await conn.fetchval(sql)
    return delta
