"""A TCP proxy that lets requests pass and loses answers: the server has done it, the client never hears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

_CONTINUE = b"HTTP/1.1 100"


@dataclass(slots=True)
class LosingProxy:
    """A proxy before a service."""

    url: str = ""
    to_lose: int = 0  # so many of the next answers; the connection is closed in their place


@asynccontextmanager
async def run_losing_proxy(upstream: str) -> AsyncIterator[LosingProxy]:
    """Run a proxy before the service at this URL."""
    proxy = LosingProxy()
    address = urlsplit(upstream)
    lines: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        task.add_done_callback(lines.discard)
        from_service, to_service = await asyncio.open_connection(address.hostname, address.port)
        asking = asyncio.create_task(_pass_on(reader, to_service))
        try:
            while answer := await from_service.read(1 << 16):
                if proxy.to_lose and not answer.startswith(_CONTINUE):
                    proxy.to_lose -= 1
                    return
                writer.write(answer)
                await writer.drain()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            writer.close()
            to_service.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while request := await reader.read(1 << 16):
        writer.write(request)
        await writer.drain()
