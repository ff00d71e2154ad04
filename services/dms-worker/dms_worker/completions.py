"""Marks jobs as succeeded, as many in one statement as have finished while the one before it ran."""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from dms_worker.held import HeldJob
from nexarch import jobs
from nexarch.db import hang_up
from nexarch.listen import backoff_s

_MOST_AT_ONCE = 1000
_TIMEOUT_S = 10.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Completions:
    """Collects finished jobs by tenant; `settled` is told of each batch and which of its jobs were still held.

    A slot must not be free before that: a job whose completion is not in the row is not done.
    """

    def __init__(self, settled: Callable[[Sequence[HeldJob], set[UUID]], None]) -> None:
        self._settled = settled
        self._finished: dict[str, list[HeldJob]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    def add(self, held: HeldJob) -> None:
        """The handler is through. Returns at once; the statement goes out when the loop has run what is ready."""
        tenant = held.ctx.tenant
        waiting = self._finished.get(tenant)
        if waiting is not None:
            waiting.append(held)
            return
        self._finished[tenant] = [held]
        task = asyncio.create_task(self._write(tenant), name=f"completions {tenant}")
        self._writers.add(task)
        task.add_done_callback(self._writers.discard)

    async def already(self, held: HeldJob) -> None:
        """The handler completed the job itself."""
        await self._settle([held], {held.job.id})

    async def close(self) -> None:
        """Write nothing more; what is not in its row stays held."""
        for task in self._writers:
            task.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)

    async def _write(self, tenant: str) -> None:
        """Write until the tenant has nothing left; each round takes what came during the one before."""
        failures = 0
        while batch := self._finished[tenant][:_MOST_AT_ONCE]:
            try:
                pool = batch[-1].visit.pool
                async with pool.acquire(timeout=_TIMEOUT_S) as conn:
                    while batch:
                        try:
                            async with asyncio.timeout(_TIMEOUT_S):
                                still_held = await jobs.complete(conn, [held.job for held in batch])
                        except TimeoutError:
                            await hang_up(pool, conn)
                            raise
                        del self._finished[tenant][: len(batch)]
                        await self._settle(batch, still_held)
                        failures = 0
                        batch = self._finished[tenant][:_MOST_AT_ONCE]
            except Exception as error:  # noqa: BLE001 - jobs that are done must not be forgotten, whatever happened
                failures += 1
                _log.warning(
                    "complete_failed", tenant=tenant, jobs=len(batch), reason=f"{type(error).__name__}: {error}"
                )
                # What the heartbeat gave up meanwhile is no longer ours, and must not hold its slot any longer.
                lost = [held for held in self._finished[tenant] if held.cancelled_for == "lost"]
                self._finished[tenant] = [held for held in self._finished[tenant] if held not in lost]
                await self._settle(lost, set())
                await asyncio.sleep(backoff_s(failures, 0.05, 5.0))
        del self._finished[tenant]

    async def _settle(self, batch: Sequence[HeldJob], still_held: set[UUID]) -> None:
        self._settled(batch, still_held)
        for held in batch:
            await held.visit.leave()
