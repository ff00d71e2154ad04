"""The sessions on the event bus, ended as a lost network would end them."""

from faults.stack import KNOWN_WITHIN_S, Stack
from support.waiting import eventually


async def drop_bus(stack: Stack) -> None:
    """End every session, and return when they are gone: whoever is on the bus then has come back to it."""
    sql = "SELECT pg_terminate_backend(pid), pid FROM pg_stat_activity WHERE usename = 'nexarch_bus'"
    ended = {row["pid"] for row in await stack.rows("postgres", sql)}
    assert ended, "nobody was on the bus"

    async def are_gone() -> bool:
        left = await stack.rows("postgres", "SELECT pid FROM pg_stat_activity WHERE usename = 'nexarch_bus'")
        return ended.isdisjoint(row["pid"] for row in left)

    await eventually(are_gone, within_s=KNOWN_WITHIN_S, every_s=0.1)
