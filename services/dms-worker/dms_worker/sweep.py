"""The net below the doorbell: every tenant is looked at now and then, whether it was rung or not.

At the start and whenever the listener has (re)connected: all. Once a minute: those armed in the last ten minutes.
Once an hour: the others, a sixtieth each minute, so that a thousand idle tenants cost next to nothing. So a producer
that armed, committed and died before its ring costs its job a minute at most.
"""

import asyncio
import contextlib
import random
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from dms_worker.due import DueTenants, Reason

_INTERVAL_S = 60.0
_ROUNDS = 60  # of which each visits its share of the idle tenants
_ACTIVE_S = 600.0
_RETRY_S = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownTenant:
    """A tenant that may have jobs; seconds since it was last armed, by the server's clock, or None for never."""

    slug: str
    idle_s: float | None


Directory = Callable[[], Awaitable[Sequence[KnownTenant]]]


class Sweep:
    """Marks tenants as due, from the list that `directory` gives."""

    def __init__(self, directory: Directory, due: DueTenants, interval_s: float = _INTERVAL_S) -> None:
        self._directory = directory
        self._due = due
        self._interval_s = interval_s
        self._active: set[str] = set()  # as of the round before
        self._everywhere = asyncio.Event()
        self._everywhere.set()

    def look_everywhere(self) -> None:
        """Rings may have been missed: all tenants are due."""
        self._everywhere.set()

    async def run(self) -> None:
        """Sweep until cancelled. While the directory is away it asks again every two seconds or so."""
        round_number = 0
        while True:
            everywhere = self._everywhere.is_set()
            self._everywhere.clear()
            try:
                tenants = await self._directory()
            except Exception as error:  # noqa: BLE001 - whatever it raises, the next round asks again
                log.warning("tenants cannot be listed", reason=f"{type(error).__name__}: {error}")
                if everywhere:
                    self._everywhere.set()
                await asyncio.sleep(min(self._interval_s, _RETRY_S) * random.uniform(0.5, 1.0))  # noqa: S311
                continue
            self._mark(tenants, round_number, everywhere=everywhere)
            round_number += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._everywhere.wait(), self._interval_s)

    def _mark(self, tenants: Sequence[KnownTenant], round_number: int, *, everywhere: bool) -> None:
        active = {tenant.slug for tenant in tenants if _is_active(tenant)}
        newly_active = active - self._active
        for tenant in tenants:
            # One that was armed since the round before may have waited for as long as that.
            if everywhere or tenant.slug in newly_active:
                self._due.mark(tenant.slug, Reason.SWEEP)
            # A tenant keeps its place in the hour and in the minute: no burst of connections, no drifting gap.
            place = zlib.crc32(tenant.slug.encode())
            if tenant.slug in active or place % _ROUNDS == round_number % _ROUNDS:
                delay_s = self._interval_s * (place // _ROUNDS % 1000) / 1000
                self._due.mark_later(tenant.slug, delay_s, Reason.SWEEP)
        self._active = active


def _is_active(tenant: KnownTenant) -> bool:
    return tenant.idle_s is not None and tenant.idle_s < _ACTIVE_S
