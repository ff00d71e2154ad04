"""Marks jobs as succeeded, as many in one statement as have finished while the one before it ran.

While a tenant has its turn, the turn's own claims complete what has finished; else a task of ours does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from dms_worker.held import HeldJob
from nexarch import jobs
from nexarch.db import borrow
from nexarch.listen import backoff_s

_MOST_AT_ONCE = 1000
_TIMEOUT_S = 10.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Completions:
    """Collects finished jobs by tenant; `settled` is told of each batch and which of its jobs had been lost.

    A slot must not be free before that: a job whose completion is not in the row is not done.
    """

    def __init__(self, settled: Callable[[Sequence[HeldJob], set[UUID]], None]) -> None:
        self._settled = settled
        self._finished: dict[str, list[HeldJob]] = {}
        self._in_turn: set[str] = set()
        self._writers: dict[str, asyncio.Task[None]] = {}

    def add(self, held: HeldJob) -> None:
        """The handler is through. Returns at once; the statement goes out when the loop has run what is ready."""
        tenant = held.visit.tenant
        waiting = self._finished.get(tenant)
        if waiting is not None:
            waiting.append(held)
            return
        self._finished[tenant] = [held]
        self._write_soon(tenant)

    async def already(self, held: HeldJob) -> None:
        """The handler completed the job itself."""
        await self.settle([held], set())

    def turn_begins(self, tenant: str) -> None:
        """From now on the tenant's turn takes what has finished, with its claims."""
        self._in_turn.add(tenant)

    def turn_ends(self, tenant: str) -> None:
        """What the turn has left is written here."""
        self._in_turn.discard(tenant)
        self._write_soon(tenant)

    def take(self, tenant: str) -> list[HeldJob]:
        """What has finished, to be written by the caller, who then calls `settle`, or `untake` if that failed."""
        batch = self._finished.pop(tenant, [])
        if len(batch) > _MOST_AT_ONCE:
            self._finished[tenant] = batch[_MOST_AT_ONCE:]
        return batch[:_MOST_AT_ONCE]

    def untake(self, tenant: str, batch: Sequence[HeldJob]) -> None:
        """These could not be written: they are finished still."""
        if batch:
            self._finished[tenant] = [*batch, *self._finished.get(tenant, [])]
            self._write_soon(tenant)

    async def settle(self, batch: Sequence[HeldJob], lost: set[UUID]) -> None:
        """The rows say that the batch is done, all but what was lost."""
        self._settled(batch, lost)
        for visit, users in Counter(held.visit for held in batch).items():
            await visit.leave(users)

    async def close(self) -> None:
        """Write nothing more; what is not in its row stays held."""
        writers = list(self._writers.values())
        for task in writers:
            task.cancel()
        await asyncio.gather(*writers, return_exceptions=True)

    def _write_soon(self, tenant: str) -> None:
        if tenant in self._finished and tenant not in self._in_turn and tenant not in self._writers:
            self._writers[tenant] = asyncio.create_task(self._write(tenant), name=f"completions {tenant}")

    async def _write(self, tenant: str) -> None:
        """Write until the tenant has nothing left; each round takes what came during the one before."""
        failures = 0
        try:
            while tenant in self._finished and tenant not in self._in_turn:
                failures = 0 if await self._write_once(tenant) else failures + 1
                if failures:
                    await asyncio.sleep(backoff_s(failures, 0.05, 5.0))
        finally:
            del self._writers[tenant]

    async def _write_once(self, tenant: str) -> bool:
        """Write one batch; False if that failed and what is not lost is to be tried again."""
        pool = self._finished[tenant][-1].visit.pool
        batch: list[HeldJob] = []
        try:
            async with borrow(pool, _TIMEOUT_S) as conn:
                if not (batch := self.take(tenant)):
                    return True  # a turn was faster
                rows = [held.job for held in batch]
                lost = {job.id for job in rows} - await jobs.complete(conn, rows)
        except Exception as error:  # noqa: BLE001 - jobs that are done must not be forgotten, whatever happened
            self.untake(tenant, batch)
            finished = self._finished.pop(tenant, [])
            _log.warning(
                "complete_failed", tenant=tenant, jobs=len(finished), reason=f"{type(error).__name__}: {error}"
            )
            # What the heartbeat gave up meanwhile is no longer ours, and must not hold its slot any longer.
            given_up = [held for held in finished if held.cancelled_for == "lost"]
            self.untake(tenant, [held for held in finished if held not in given_up])
            await self.settle(given_up, {held.job.id for held in given_up})
            return False
        await self.settle(batch, lost)
        return True
