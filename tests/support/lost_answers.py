"""A TCP proxy that lets requests pass and loses answers: the server has done it, the client never hears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from support.lines import serve_lines

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

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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

    async with serve_lines(serve) as proxy.url:
        yield proxy


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while request := await reader.read(1 << 16):
        writer.write(request)
        await writer.drain()
