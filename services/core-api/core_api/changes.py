"""Tells all processes that something changed, so that they drop what they keep of it."""

from nexarch.db import Connection


async def announce_change(conn: Connection, channel: str, payload: str = "") -> None:
    """Notify at the commit of the transaction that makes the change.

    NOTIFY in a transaction takes a lock over all commits of the server for a moment. These changes are made by
    people, a few a day; jobs ring after their commit instead (`nexarch.doorbell`).
    """
    await conn.execute("SELECT pg_notify($1, $2)", channel, payload)
