"""One run: for each fault a part of the files goes up, the fault is done in the middle of it, and all is checked."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import aiohttp

from faults import checks
from faults.client import Client, GivenUp, Seen
from faults.documents import File, make_files
from faults.faults import FAULTS, Fault, Times
from faults.stack import Stack
from support.waiting import eventually

CLIENTS = 4
_LOOK_EVERY_S = 0.2
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
    """What one fault did; times in seconds from its end."""

    fault: str
    seen: Seen = field(default_factory=Seen)
    uploads: int = 0
    ready_s: float | None = None  # until every /readyz said 200
    done_s: float | None = None  # until nothing was left to do: uploads, jobs, usage
    left_objects: int = 0  # in the store without a row, as a crash between the two leaves them
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

    async def all_faults(self) -> None:
        """Do every fault of the plan, one after the other."""
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

    async def _one(
        self,
        fault: Fault,
        files: Sequence[File],
        clients: Sequence[Client],
        http: aiohttp.ClientSession,
        outcome: Outcome,
    ) -> None:
        in_the_middle = asyncio.Event()
        waiting = list(files)

        async def upload_all(client: Client) -> None:
            try:
                while waiting:
                    file = waiting.pop()
                    self.acknowledged[await client.upload(file)] = file
                    outcome.uploads += 1
                    if outcome.uploads >= len(files) // 4:
                        in_the_middle.set()
            finally:
                in_the_middle.set()

        loop = asyncio.get_running_loop()
        uploads = [asyncio.create_task(upload_all(client)) for client in clients]
        try:
            async with asyncio.timeout(self.plan.patience_s + self.plan.times.paused_s):
                await in_the_middle.wait()
                await fault.do(self.stack, self.plan.times)
                over_at = loop.time()
                await eventually(self._is_ready, within_s=self.plan.patience_s, every_s=_LOOK_EVERY_S)
                outcome.ready_s = loop.time() - over_at
                await asyncio.gather(*uploads)
        finally:
            for upload in uploads:
                upload.cancel()
            await asyncio.gather(*uploads, return_exceptions=True)
        uploaded_s = loop.time() - over_at
        outcome.problems += await self._left_undone(http)
        outcome.done_s = loop.time() - over_at
        times = (outcome.ready_s, uploaded_s, outcome.done_s)
        self.say("  ready after {:.1f} s, uploaded after {:.1f} s, done after {:.1f} s".format(*times))
        await self._check(clients[0], http, outcome)

    async def _is_ready(self) -> bool:
        return not await self.stack.unready()

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
        outcome.left_objects = len(await checks.objects_without_row(self.stack))


@contextlib.contextmanager
def _told(outcome: Outcome) -> Iterator[None]:
    """A check that cannot be made, or something that never came to pass, is a problem of this fault."""
    try:
        yield
    except (OSError, TimeoutError, aiohttp.ClientError, GivenUp) as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
