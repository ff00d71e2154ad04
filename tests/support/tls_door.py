"""A door before a Postgres that takes TLS only, as `hostssl` in its pg_hba.conf does.

The server that the tests bring along is built without TLS; what the door says is what PostgreSQL 15 was heard to say.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from support.certificates import write_certificate
from support.lines import serve_lines

# PostgreSQL 18, chapter "Message Formats": what asks for TLS, and how a server without a fitting entry refuses.
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_REFUSAL = (
    b'SFATAL\0VFATAL\0C28000\0Mno pg_hba.conf entry for host "127.0.0.1", user "u", database "d", no encryption\0\0'
)


@dataclass(slots=True)
class Door:
    """Its port, and whom it has seen."""

    port: int = 0
    refused: int = 0
    admitted: int = 0


@asynccontextmanager
async def tls_door(upstream_port: int, folder: Path) -> AsyncIterator[Door]:
    """Open the door to a server on this machine; its certificate is made in the folder."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    write_certificate(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    door = Door()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(len(_SSL_REQUEST)) != _SSL_REQUEST:
            door.refused += 1
            writer.write(b"E" + struct.pack("!i", 4 + len(_REFUSAL)) + _REFUSAL)
            await writer.drain()
            writer.close()
            return
        door.admitted += 1
        writer.write(b"S")
        await writer.start_tls(context)
        to_server = await asyncio.open_connection("127.0.0.1", upstream_port)
        await asyncio.gather(_pass_on(reader, to_server[1]), _pass_on(to_server[0], writer))

    async with serve_lines(serve) as url:
        door.port = urlsplit(url).port or 0
        yield door


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()
