"""The faults, in the order in which they are done."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal

from faults.stack import Part, Service, Stack


@dataclass(frozen=True, slots=True)
class Times:
    """How long things last, in seconds."""

    away_s: float
    paused_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and how one can tell that it was real."""

    name: str
    standing: Callable[[Stack], AbstractAsyncContextManager[None]]  # within it the fault is known to stand
    lasts: Literal["away", "paused"] | None = None  # None: it has happened once it stands
    # Of this, one at least must have come to the clients; where nothing is named they need not notice.
    shows: Sequence[str] = ()
    # Whether it can fall between an object and its row: whoever completed an upload was killed or paused, or could not
    # learn what the database or the store had done.
    cuts_completes: bool = False

    def lasts_s(self, times: Times) -> float | None:
        """For how long it is to stand; None where it has happened once it stands."""
        return None if self.lasts is None else {"away": times.away_s, "paused": times.paused_s}[self.lasts]


def _killed(service: Service) -> Callable[[Stack], AbstractAsyncContextManager[None]]:
    return lambda stack: stack.killed(service)


def _stopped(part: Part) -> Callable[[Stack], AbstractAsyncContextManager[None]]:
    return lambda stack: stack.stopped(part)


def _paused(service: Service) -> Callable[[Stack], AbstractAsyncContextManager[None]]:
    return lambda stack: stack.paused(service)


_LINE = ("broken line", "no connection", "silent line")

FAULTS = (
    Fault(name="core-api killed", standing=_killed("core-api")),
    Fault(name="dms-ingest killed", standing=_killed("dms-ingest"), shows=_LINE, cuts_completes=True),
    Fault(name="dms-worker killed", standing=_killed("dms-worker")),
    Fault(name="alerter killed", standing=_killed("alerter")),
    # A request may wait for so short a time, and notice nothing.
    Fault(name="PostgreSQL restarted", standing=lambda stack: stack.restarted_postgres(), cuts_completes=True),
    Fault(
        name="PostgreSQL away",
        standing=_stopped("PostgreSQL"),
        lasts="away",
        shows=("503 database-away",),
        cuts_completes=True,
    ),
    Fault(
        name="object store away",
        standing=_stopped("object store"),
        lasts="away",
        shows=("503 storage-away",),
        cuts_completes=True,
    ),
    Fault(name="core-api away", standing=_stopped("core-api"), lasts="away", shows=("503 core-api-away",)),
    Fault(
        name="staging disk full", standing=lambda stack: stack.full_disk(), lasts="away", shows=("507 staging-full",)
    ),
    Fault(name="event bus dropped", standing=lambda stack: stack.dropped_bus()),
    Fault(name="dms-ingest paused", standing=_paused("dms-ingest"), lasts="paused", cuts_completes=True),
    Fault(name="dms-worker paused", standing=_paused("dms-worker"), lasts="paused"),
)
