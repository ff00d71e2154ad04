"""A TCP proxy that breaks lines: it closes a connection after so many bytes, or takes none at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from support.lines import serve_lines

_PIECE = 64 << 10


@dataclass(slots=True)
class Proxy:
    """A proxy before a service. All counts are bytes over all connections since the start."""

    url: str
    upstream: str  # URL of the service; may be changed while the proxy runs
    cut_sent_at: list[int] = field(default_factory=list)  # in order; each breaks one connection
    cut_received_at: list[int] = field(default_factory=list)
    is_closed: bool = False  # every new connection is closed at once
    close_at_cut: bool = False
    sent: int = 0  # to the service
    received: int = 0  # from the service
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)  # for a first connection
    was_cut: asyncio.Event = field(default_factory=asyncio.Event)

    def count_sent(self, size: int) -> bool:
        """Whether the line may go on after these bytes to the service."""
        self.sent += size
        return not self._is_over(self.cut_sent_at, self.sent)

    def count_received(self, size: int) -> bool:
        """Whether the line may go on after these bytes from the service."""
        self.received += size
        return not self._is_over(self.cut_received_at, self.received)

    def _is_over(self, cuts: list[int], total: int) -> bool:
        if not cuts or total < cuts[0]:
            return False
        cuts.pop(0)
        self.is_closed = self.is_closed or self.close_at_cut
        self.was_cut.set()
        return True


@asynccontextmanager
async def run_proxy(upstream: str) -> AsyncIterator[Proxy]:
    """Run a proxy before the service at this URL."""
    proxy = Proxy(url="", upstream=upstream)
    async with serve_lines(partial(_serve, proxy)) as proxy.url:
        yield proxy


async def _serve(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    proxy.was_asked.set()
    if proxy.is_closed:
        writer.close()
        return
    address = urlsplit(proxy.upstream)
    try:
        from_service, to_service = await asyncio.open_connection(address.hostname, address.port)
    except ConnectionRefusedError:
        writer.close()
        return
    directions = [
        asyncio.create_task(_pump(reader, to_service, proxy.count_sent)),
        asyncio.create_task(_pump(from_service, writer, proxy.count_received)),
    ]
    try:
        # Either end may close; half of a line is of no use to HTTP.
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        writer.close()
        to_service.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_go_on: Callable[[int], bool]) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
        if not may_go_on(len(piece)):
            return
    writer.write_eof()
    await writer.drain()
