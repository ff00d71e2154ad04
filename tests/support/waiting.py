"""Waiting for something that will become true, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable


async def eventually(check: Callable[[], Awaitable[bool]], *, within_s: float = 15.0, every_s: float = 0.02) -> None:
    """Ask until the answer is yes; `TimeoutError` naming the question after `within_s` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not await check():
        if loop.time() > deadline:
            raise TimeoutError(f"{getattr(check, '__name__', check)} did not become true within {within_s} s")
        await asyncio.sleep(every_s)
