"""Connections of this event loop that are closed on our side, and still have bytes to send."""

import asyncio

from support.waiting import eventually


async def until_sent() -> None:
    """Return when none is left. The loop must not end before: such a socket would be found open in some later test."""

    async def none_is_left() -> bool:
        transports = list(asyncio.get_running_loop()._transports.values())  # type: ignore[attr-defined]
        return not any(line.is_closing() and line.get_write_buffer_size() for line in transports)

    await eventually(none_is_left)
    await asyncio.sleep(0)  # the loop closes the socket in the turn after the last byte
