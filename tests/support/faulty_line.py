"""A TCP proxy whose lines fail in the ways that lines fail: reset, closed, half open, or without the answer."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

_PIECE = 64 << 10
_STALL_S = 0.3  # the client of a half open line learns of it after so long

How = Literal["reset", "close", "stall", "swallow"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the line that carries this byte, counted over all lines to the service.

    reset, close: RST or FIN to both. stall: RST to the client after a while, and nothing more to the service, which
    goes on waiting. swallow: the service gets everything, its answer goes nowhere and then the client gets RST.
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
                    _reset(writer)
                case "swallow":
                    await asyncio.wait([down])
                    _reset(writer)
                case "reset":
                    _reset(writer)
                    _reset(to_service)
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

    def close_half_open(self) -> None:
        """End what was left half open."""
        for writer in self._half_open:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def run_faulty_line(upstream: str, *faults: Fault) -> AsyncIterator[FaultyLine]:
    """Run the proxy before the service at this URL."""
    line = FaultyLine("", upstream, list(faults))
    lines: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        try:
            await line.serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # one of the ends is gone, which is what this is for
        finally:
            lines.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
        for task in lines:
            task.cancel()
        await asyncio.gather(*lines, return_exceptions=True)
        line.close_half_open()
