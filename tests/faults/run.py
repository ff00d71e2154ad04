"""One run: for each fault a part of the files goes up, the fault comes in the middle of it, and all is checked."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import aiohttp

from faults import checks
from faults.client import Client, GivenUp, Seen
from faults.documents import File, make_files
from faults.faults import FAULTS, Fault, Times
from faults.round import Round
from faults.stack import Stack
from support.waiting import eventually

CLIENTS = 4
_LOOK_EVERY_S = 0.2
_STAYS_S = 1.5  # longer than a service keeps the answer of its checks
_ROOM = 64 << 20  # bytes

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done."""

    documents: int
    largest: int  # bytes
    times: Times
    seed: str = "faults"
    patience_s: float = 240.0  # for anything that must come to pass by itself
    faults: Sequence[Fault] = FAULTS

    @property
    def staging_bytes(self) -> int:
        """How large the disk for staged uploads is to be: for twice what the clients have on their way, and more."""
        return 2 * CLIENTS * self.largest + _ROOM


FULL = Plan(documents=200, largest=64 << 20, times=Times(away_s=20, paused_s=30))
SHORT = Plan(documents=96, largest=4 << 20, times=Times(away_s=4, paused_s=6))


@dataclass(slots=True)
class Outcome:
    """What one fault did; times in seconds from its end, or from when it stood if it does not last."""

    fault: str
    seen: Seen = field(default_factory=Seen)
    uploads: int = 0
    ready_s: float | None = None  # until every /readyz said 200, and went on to say so
    done_s: float | None = None  # until nothing was left to do: uploads, jobs, usage
    new_orphans: int = 0  # objects without a row, as a crash between the two leaves them
    problems: list[str] = field(default_factory=list)

    def all_problems(self) -> list[str]:
        """With what clients were told that they should not be."""
        return self.problems + [f"clients were told {what}, {n} times" for what, n in self.seen.wrong.items()]


@dataclass(slots=True)
class Run:
    """A run on a stack that is fresh; `outcomes` has one for each fault that was done."""

    stack: Stack
    plan: Plan
    say: Say
    outcomes: list[Outcome] = field(default_factory=list)
    acknowledged: dict[UUID, File] = field(default_factory=dict)
    orphans: set[str] = field(default_factory=set)  # keys

    async def all_faults(self) -> None:
        """Do every fault of the plan, one after the other; at the end the platform checks its store itself."""
        files = make_files(self.plan.seed, self.plan.documents, self.plan.largest)
        async with aiohttp.ClientSession() as http:
            clients = [Client(http, self.stack, lambda: self.outcomes[-1].seen) for _ in range(CLIENTS)]
            for number, fault in enumerate(self.plan.faults):
                outcome = Outcome(fault.name)
                self.outcomes.append(outcome)
                self.say(f"{fault.name} ...")
                with _told(outcome):
                    await self._one(fault, files[number :: len(self.plan.faults)], clients, http, outcome)
                for problem in outcome.all_problems():
                    self.say(f"  ✗ {problem}")
            with _told(self.outcomes[-1]):
                self.outcomes[-1].problems += await checks.wrong_report(self.stack, http, len(self.orphans))

    async def _one(
        self,
        fault: Fault,
        files: Sequence[File],
        clients: Sequence[Client],
        http: aiohttp.ClientSession,
        outcome: Outcome,
    ) -> None:
        began_at = datetime.now(UTC).replace(microsecond=0)  # the store tells whole seconds
        known = len(self.acknowledged)
        uploads = Round(files, clients, self.acknowledged)
        try:
            async with asyncio.timeout(self.plan.patience_s + self.plan.times.paused_s):
                await uploads.begin()
                over_at = await self._stand(fault, uploads, outcome)
                await uploads.finish()
        finally:
            await uploads.break_off()
            outcome.uploads = len(self.acknowledged) - known
        uploaded_s = _now() - over_at
        outcome.problems += await self._left_undone(http)
        outcome.done_s = _now() - over_at
        times = (outcome.ready_s, uploaded_s, outcome.done_s)
        self.say("  ready after {:.1f} s, uploaded after {:.1f} s, done after {:.1f} s".format(*times))
        outcome.problems += not_felt(fault, outcome.seen)
        await self._check(clients[0], http, outcome)
        await self._check_orphans(fault, began_at, outcome)

    async def _stand(self, fault: Fault, uploads: Round, outcome: Outcome) -> float:
        """Let the fault come and go; returns when it was over."""
        lasts_s = fault.lasts_s(self.plan.times)
        async with fault.standing(self.stack):
            outcome.seen.stands = True
            over_at = _now()
            # What does not last counts until its traces are gone.
            passing = self._until_ready() if lasts_s is None else asyncio.sleep(lasts_s, _now())
            _, ready_at = await asyncio.gather(uploads.meet(lasts_s), passing)
            outcome.seen.stands = False
        if lasts_s is not None:
            over_at = _now()
            ready_at = await self._until_ready()
        outcome.ready_s = ready_at - over_at
        return over_at

    async def _until_ready(self) -> float:
        """Wait until every service is ready and stays so; returns since when it was."""
        since: float | None = None

        async def is_ready_for_good() -> bool:
            nonlocal since
            asked_at = _now()
            since = None if await self.stack.unready() else since or asked_at
            return since is not None and _now() - since > _STAYS_S

        await eventually(is_ready_for_good, within_s=self.plan.patience_s, every_s=_LOOK_EVERY_S)
        assert since is not None
        return since

    async def _left_undone(self, http: aiohttp.ClientSession) -> list[str]:
        left: list[str] = []

        async def nothing_is_left() -> bool:
            left[:] = await checks.unfinished(self.stack, http, self.acknowledged)
            return not left

        with contextlib.suppress(TimeoutError):
            await eventually(nothing_is_left, within_s=self.plan.patience_s, every_s=_LOOK_EVERY_S)
        return left

    async def _check(self, client: Client, http: aiohttp.ClientSession, outcome: Outcome) -> None:
        outcome.problems += await checks.wrong_rows(self.stack, self.acknowledged)
        outcome.problems += await checks.wrong_bytes(client, self.acknowledged)
        outcome.problems += await checks.wrong_usage(self.stack, http, self.acknowledged)

    async def _check_orphans(self, fault: Fault, began_at: datetime, outcome: Outcome) -> None:
        found = await checks.orphans(self.stack, self.orphans, began_at)
        outcome.problems += found.unexplained(outcome.seen.allowed.total() if fault.cuts_completes else 0)
        outcome.new_orphans = len(found.young | found.old)
        self.orphans |= found.young | found.old


def not_felt(fault: Fault, seen: Seen) -> list[str]:
    """Why this round shows nothing of its fault; empty where it does."""
    problems = []
    if not seen.uploads_meanwhile or not seen.requests_meanwhile:
        problems.append("no upload began while the fault stood: this row shows nothing of it")
    if fault.shows and not any(seen.allowed[what] for what in fault.shows):
        problems.append(f"no client met any of what this fault shows: {', '.join(fault.shows)}")
    return problems


def _now() -> float:
    return asyncio.get_running_loop().time()


@contextlib.contextmanager
def _told(outcome: Outcome) -> Iterator[None]:
    """A check that cannot be made, or something that never came to pass, is a problem of this fault."""
    try:
        yield
    except (OSError, TimeoutError, aiohttp.ClientError, GivenUp) as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
