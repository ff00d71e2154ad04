"""Which tenants to look at: those that were rung, timed or swept, one after the other, and nobody twice at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice


class Reason(StrEnum):
    """Why a tenant is looked at."""

    RING = "ring"
    TIMER = "timer"  # a job comes due, a lock goes stale, claims passed over something, a database is tried again
    SWEEP = "sweep"


@dataclass(slots=True)
class Turn:
    """One look at a tenant: for which job types, why, and whether it is known to have jobs that are due.

    `answered` says whether its database has answered a claim in this turn.
    """

    tenant: str
    job_types: set[str]
    reason: Reason
    more_known: bool = False
    answered: bool = False


class DueTenants:
    """Round robin: a tenant that is due stands once in the line, and goes to its end after each turn.

    A mark that comes during a tenant's turn is kept, because the turn may have looked already. Tenants whose job
    types have no free slot stand aside until `slots_freed`.
    """

    def __init__(self, job_types: Iterable[str]) -> None:
        self._job_types = frozenset(job_types)
        self._line: dict[str, Turn] = {}  # in the order of marking
        self._aside: dict[str, Turn] = {}
        self._in_turn: set[str] = set()
        self._timers: dict[tuple[str, Reason], asyncio.TimerHandle] = {}
        self._takers: deque[asyncio.Future[None]] = deque()  # who waits for a tenant
        self._closed = False

    def __len__(self) -> int:
        """How many tenants stand in the line or aside."""
        return len(self._line) + len(self._aside)

    @property
    def closed(self) -> bool:
        """Whether there are no more turns, and those that are on should end."""
        return self._closed

    @property
    def others_wait(self) -> bool:
        """Whether a tenant that is not in its turn stands in the line."""
        return any(tenant not in self._in_turn for tenant in self._line)

    def mark(self, tenant: str, reason: Reason) -> None:
        """Look at this tenant, for every job type."""
        self._put(Turn(tenant, set(self._job_types), reason))

    def mark_later(self, tenant: str, delay_s: float, reason: Reason) -> None:
        """Look at this tenant in so many seconds, or at the earlier time that was set before for the same reason."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + delay_s
        timer = self._timers.get((tenant, reason))
        if timer is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._timers[tenant, reason] = loop.call_at(at, self._timer_fired, tenant, reason)

    def forget_timer(self, tenant: str) -> None:
        """Do not look at this tenant for Reason.TIMER, unless it is set anew."""
        if (timer := self._timers.pop((tenant, Reason.TIMER), None)) is not None:
            timer.cancel()

    async def take(self) -> Turn | None:
        """Wait for the next tenant that is due; None after `close`. Every turn is followed by `finish`."""
        while not self._closed:
            for tenant in self._line:
                if tenant not in self._in_turn:
                    # The mark goes before the look: one that comes from now on is a new one.
                    self._in_turn.add(tenant)
                    return self._line.pop(tenant)
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            await taker
        return None

    def finish(self, turn: Turn) -> None:
        """End a turn, so that the tenant may have the next one."""
        self._in_turn.discard(turn.tenant)
        if turn.tenant in self._line:
            self._wake_one()

    def again(self, turn: Turn, job_types: set[str]) -> None:
        """The tenant has more of these types: to the end of the line."""
        self._put(Turn(turn.tenant, job_types, turn.reason, more_known=True))

    def stand_aside(self, turn: Turn, job_types: set[str]) -> None:
        """No slot is free for these types: come back when one is."""
        waiting = self._aside.get(turn.tenant)
        if waiting is None:
            self._aside[turn.tenant] = Turn(turn.tenant, set(job_types), turn.reason, turn.more_known)
        else:
            waiting.job_types |= job_types

    def types_aside(self, tenant: str) -> set[str]:
        """The job types for which this tenant waits for a slot."""
        waiting = self._aside.get(tenant)
        return set() if waiting is None else waiting.job_types

    def slots_freed(self, free: Callable[[str, Iterable[str]], set[str]], at_most: int) -> None:
        """Bring back tenants that wait for a type that is free for them now, in the order in which they came.

        No more than there are slots: of a thousand that wait, all others would only have to stand aside again.
        """
        waiting = (tenant for tenant, turn in self._aside.items() if free(tenant, turn.job_types))
        for tenant in list(islice(waiting, at_most)):
            self._put(self._aside.pop(tenant))

    def close(self) -> None:
        """No more turns: every `take` returns None, timers are off."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._takers:
            self._wake_one()

    def _put(self, turn: Turn) -> None:
        present = self._line.get(turn.tenant)
        if present is None:
            self._line[turn.tenant] = turn
        else:
            present.job_types |= turn.job_types
            present.reason = turn.reason if turn.reason is Reason.RING else present.reason
            present.more_known |= turn.more_known
        self._wake_one()

    def _wake_one(self) -> None:
        """Have one of those who wait look at the line; who does not wait looks before he does."""
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():  # else it was cancelled
                taker.set_result(None)
                return

    def _timer_fired(self, tenant: str, reason: Reason) -> None:
        del self._timers[tenant, reason]
        self.mark(tenant, reason)
