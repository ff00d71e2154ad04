"""A TCP proxy before a database that can go silent, as a firewall does that forgot a connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class SwallowingProxy:
    """Passes bytes both ways; told to, it swallows those of the present connections for ever, without closing them."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._deaf: set[asyncio.Task[None]] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def accept(self) -> None:
        """Take connections, always on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Take no more connections."""
        assert self._server is not None
        self._server.close()

    def swallow_everything(self) -> None:
        """From now on nothing arrives on the connections that are open; new ones are not affected."""
        self._deaf |= self._pipes

    def cut(self) -> None:
        """Close the connections that are open."""
        for writer in self._writers:
            writer.close()

    async def close(self) -> None:
        """End everything."""
        await self.refuse()
        self.cut()
        pipes = list(self._pipes)
        for task in pipes:
            task.cancel()
        await asyncio.gather(*pipes, *(w.wait_closed() for w in self._writers), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, server_writer), (server_reader, writer)):
            self._writers.add(sink)
            task = asyncio.create_task(self._pipe(source, sink))
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if asyncio.current_task() not in self._deaf:
                    sink.write(data)
                    await sink.drain()
        except OSError:
            pass
        finally:
            if asyncio.current_task() not in self._deaf:
                sink.close()
                self._writers.discard(sink)


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[tuple[str, SwallowingProxy]]:
    """The same database through a proxy: its address, and the proxy."""
    parts = urlsplit(dsn)
    proxy = SwallowingProxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    await proxy.accept()
    credentials = parts.netloc.rpartition("@")[0]
    try:
        yield urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{proxy.port}")), proxy
    finally:
        await proxy.close()
