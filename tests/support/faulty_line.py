"""A TCP proxy whose lines fail in the ways that lines fail: reset, closed, half open, or without the answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from support.lines import reset, serve_lines

_PIECE = 64 << 10
_STALL_S = 0.3  # the client of a half open line learns of it after so long

How = Literal["reset", "close", "stall", "swallow", "hang"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the line that carries this byte, counted over all lines to the service.

    reset, close: RST or FIN to both. stall: RST to the client after a while, and nothing more to the service, which
    goes on waiting. swallow: the service gets everything, its answer goes nowhere and then the client gets RST.
    hang: nothing more to the service, which goes on waiting as the client does, until that gives up.
    """

    at: int
    how: How


@dataclass(slots=True)
class FaultyLine:
    """The proxy; `taken` counts the bytes that clients sent, forwarded or not."""

    url: str
    upstream: str
    faults: list[Fault] = field(default_factory=list)  # in order of `at`; each happens once
    taken: int = 0
    sent: int = 0
    _half_open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One line, to its end."""
        address = urlsplit(self.upstream)
        from_service, to_service = await asyncio.open_connection(address.hostname, address.port)
        fault = asyncio.get_running_loop().create_future()
        up = asyncio.create_task(self._up(reader, to_service, fault))
        down = asyncio.create_task(self._down(from_service, writer, fault))
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            match fault.result() if fault.done() else None:
                case "stall":
                    await asyncio.sleep(_STALL_S)
                    self._half_open.append(to_service)
                    reset(writer)
                case "hang":
                    self._half_open.append(to_service)
                    while piece := await reader.read(_PIECE):
                        self.taken += len(piece)
                case "swallow":
                    await asyncio.wait([down])
                    reset(writer)
                case "reset":
                    reset(writer)
                    reset(to_service)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            writer.close()
            if to_service not in self._half_open:
                to_service.close()

    async def _up(
        self, reader: asyncio.StreamReader, to_service: asyncio.StreamWriter, fault: asyncio.Future[How]
    ) -> None:
        while piece := await reader.read(_PIECE):
            self.taken += len(piece)
            for part, how in self._until_faults(piece):
                to_service.write(part)
                await to_service.drain()
                if how is not None and not fault.done():
                    fault.set_result(how)
                    if how != "swallow":
                        return

    def _until_faults(self, piece: bytes) -> Iterator[tuple[bytes, How | None]]:
        """The piece in parts, each but perhaps the last up to the byte of a fault."""
        while self.faults and self.faults[0].at <= self.sent + len(piece):
            fault = self.faults.pop(0)
            part, piece = piece[: fault.at - self.sent], piece[fault.at - self.sent :]
            self.sent += len(part)
            yield part, fault.how
        self.sent += len(piece)
        yield piece, None

    async def _down(
        self, from_service: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: asyncio.Future[How]
    ) -> None:
        while piece := await from_service.read(_PIECE):
            if fault.done():
                if fault.result() == "swallow":
                    return
                continue
            writer.write(piece)
            await writer.drain()

    async def is_faultless(self) -> bool:
        """Whether all faults have happened."""
        return self.faults == []

    def close_half_open(self) -> None:
        """End what was left half open."""
        for writer in self._half_open:
            writer.close()


@asynccontextmanager
async def run_faulty_line(upstream: str, *faults: Fault) -> AsyncIterator[FaultyLine]:
    """Run the proxy before the service at this URL."""
    line = FaultyLine("", upstream, list(faults))
    try:
        async with serve_lines(line.serve) as line.url:
            yield line
    finally:
        line.close_half_open()
