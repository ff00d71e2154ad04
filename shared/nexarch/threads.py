"""Blocking work off the event loop, safe to cancel."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from nexarch.finishing import to_its_end

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread of the loop's default executor and return what it returns.

    Unlike asyncio.to_thread, a cancelled caller first waits until the thread is done. So a caller may give the
    function a buffer or a file of its own and take both back in `finally`: nobody still uses them then.
    """
    loop = asyncio.get_running_loop()
    return await to_its_end(loop.run_in_executor(None, partial(function, *args, **kwargs)))
