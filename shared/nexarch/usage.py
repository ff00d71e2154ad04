"""Metering: every change of what a tenant stores is written down in the transaction that makes it."""

from nexarch.db import Connection

STORAGE_BYTES = "storage_bytes"


async def record_storage(conn: Connection, delta_bytes: int) -> None:
    """Put a change of the stored plaintext bytes into the outbox; delivery to core-api comes after the commit."""
    sql = "INSERT INTO usage_outbox (metric, delta) VALUES ($1, $2)"
    await conn.execute(sql, STORAGE_BYTES, delta_bytes)
