"""Servers in the middle of a line, which serve each connection as a test says, and lines that end with RST."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_lines(serve: Serve) -> AsyncIterator[str]:
    """Serve every connection to a port of its own, and end those that are left with the block; gives the URL."""
    lines: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        try:
            # One of the ends is gone, which is what these servers are for.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            lines.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the line with RST, as a router that lost its state does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
