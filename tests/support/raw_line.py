"""HTTP requests that are sent byte by byte, over lines that can be broken in more than one way."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from support.ingest import Ingest, Person
from support.lines import reset


@dataclass(frozen=True, slots=True)
class RawLine:
    """A connection with a request on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes and wait until the system took them."""
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """The status of the next answer."""
        async with asyncio.timeout(15):
            line = await self.reader.readline()
        return int(line.split()[1])

    async def head(self) -> dict[str, str]:
        """The headers that follow a status, by their names in lower case."""
        async with asyncio.timeout(15):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}

    def reset(self) -> None:
        """Break the line with RST."""
        reset(self.writer)

    async def close(self) -> None:
        """End the line politely, with FIN."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def begin(
    ingest: Ingest, person: Person, method: str, path: str, *headers: str, receive_buffer: int | None = None
) -> RawLine:
    """Open a line and send the head of a request, with these headers; the path goes out as it is.

    With a `receive_buffer` the system takes no more bytes than that before they are read.
    """
    url = urlsplit(ingest.url)
    line_socket = socket.socket()
    line_socket.setblocking(False)
    if receive_buffer is not None:
        line_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await asyncio.get_running_loop().sock_connect(line_socket, (url.hostname, url.port))
    reader, writer = await asyncio.open_connection(sock=line_socket)
    line = RawLine(reader, writer)
    head = [f"{method} {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: Bearer {person.token}", *headers]
    await line.send(("\r\n".join(head) + "\r\n\r\n").encode())
    return line
