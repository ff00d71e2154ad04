"""Blocking work off the event loop, safe to cancel."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread of the loop's default executor and return what it returns.

    Unlike asyncio.to_thread, a cancelled caller first waits until the thread is done. So a caller may give the
    function a buffer or a file of its own and take both back in `finally`: nobody still uses them then.
    """
    future = asyncio.get_running_loop().run_in_executor(None, partial(function, *args, **kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue  # cancelled once more: the thread uses the buffers still
        if not future.cancelled():
            future.exception()  # taken note of; the cancellation is what the caller is told
        raise
