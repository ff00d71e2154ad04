"""Patience with a line that breaks and a server that restarts."""

import asyncio
import random
import time

from nexarch.cli.failures import Unavailable

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0


class Patience:
    """Waits longer after each failure, and gives up after `retry_for_s` seconds without any progress."""

    def __init__(self, retry_for_s: float) -> None:
        self._retry_for_s = retry_for_s
        self._failures = 0
        self._since = time.monotonic()

    def progressed(self) -> None:
        """Something got through: begin anew."""
        self._failures = 0
        self._since = time.monotonic()

    async def after(self, failure: Unavailable, hint: str) -> None:
        """Pause before the next try, or raise the failure once patience has ended."""
        pause = min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S) * random.uniform(0.8, 1.2)  # noqa: S311
        self._failures += 1
        if time.monotonic() + pause - self._since > self._retry_for_s:
            raise Unavailable(failure.message, hint=hint, code=failure.code) from failure
        await asyncio.sleep(pause)
