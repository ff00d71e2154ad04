"""Turns: few work at once, and of those who wait each tenant has one in turn, however many are one tenant's."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """For at most `at_once`; among the waiting of one tenant who came first is first."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by tenant, the next one first

    @asynccontextmanager
    async def one(self, tenant: str) -> AsyncIterator[None]:
        """Work within the block when it is this one's turn."""
        if self._free:  # then nobody waits
            self._free -= 1
        else:
            await self._given(tenant)
        try:
            yield
        finally:
            self._pass_on()

    async def _given(self, tenant: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            tenant, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[tenant] = turns
            if not turn.done():  # who was cancelled has gone
                turn.set_result(None)
                return
        self._free += 1
