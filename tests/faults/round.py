"""The uploads of one fault: some are done before it, some are half up when it comes, others begin while it stands."""

import asyncio
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from uuid import UUID

from faults.client import Client, Halfway
from faults.documents import File

_FED = 0.9  # of the time for which the fault stands: then the last upload of those meanwhile begins


@dataclass(frozen=True, slots=True)
class Shares:
    """The files of one fault, by when their uploads begin."""

    before: Sequence[File]
    under_way: Sequence[File]  # one for every other client: the largest ones
    meanwhile: Sequence[File]

    @classmethod
    def of(cls, files: Sequence[File], clients: int) -> "Shares":
        """A quarter is up before; at least a half begins meanwhile."""
        quarter = len(files) // 4
        by_size = sorted(files, key=lambda file: file.size, reverse=True)
        under_way = by_size[: min(quarter, clients // 2)]
        others = [file for file in files if file not in under_way]
        return cls(others[:quarter], under_way, others[quarter:])


class Round:
    """The clients at work; `acknowledged` gets each document as soon as its client was told of it."""

    def __init__(
        self, files: Sequence[File], clients: Sequence[Client], acknowledged: MutableMapping[UUID, File]
    ) -> None:
        self._shares = Shares.of(files, len(clients))
        self._clients = clients
        self._acknowledged = acknowledged
        self._halfway = [Halfway() for _ in self._shares.under_way]
        self._files: asyncio.Queue[File | None] = asyncio.Queue()
        self._held = list(self._shares.meanwhile)
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Upload what is to be up before the fault, and the halves of what is to be under way."""
        waiting = list(self._shares.before)

        async def upload_before(client: Client) -> None:
            while waiting:
                await self._upload(client, waiting.pop())

        await asyncio.gather(*(upload_before(client) for client in self._clients))
        begun = zip_longest(self._clients, zip(self._shares.under_way, self._halfway, strict=True))
        self._tasks = [asyncio.create_task(self._work(client, first)) for client, first in begun]
        for halfway in self._halfway:
            await halfway.reached.wait()

    async def meet(self, lasts_s: float | None) -> None:
        """The fault stands: go on with those under way, and begin others, evenly for as long as it is to stand."""
        for halfway in self._halfway:
            halfway.go_on.set()
        at_once = len(self._held) if lasts_s is None else len(self._clients) - len(self._halfway)
        self._release(at_once)
        pause_s = _FED * (lasts_s or 0.0) / max(1, len(self._held))
        while self._held:
            await asyncio.sleep(pause_s)
            self._release(1)

    async def finish(self) -> None:
        """Return when all is up; GivenUp where that never comes."""
        self._release(len(self._held))
        for _ in self._clients:
            self._files.put_nowait(None)
        await asyncio.gather(*self._tasks)

    async def break_off(self) -> None:
        """Stop what is not up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _release(self, count: int) -> None:
        for file in self._held[:count]:
            self._files.put_nowait(file)
        del self._held[:count]

    async def _work(self, client: Client, first: tuple[File, Halfway] | None) -> None:
        if first is not None:
            await self._upload(client, *first)
        while (file := await self._files.get()) is not None:
            await self._upload(client, file)

    async def _upload(self, client: Client, file: File, halfway: Halfway | None = None) -> None:
        try:
            self._acknowledged[await client.upload(file, halfway)] = file
        finally:
            if halfway is not None:
                halfway.reached.set()  # who waits for it shall not wait for one that has failed
