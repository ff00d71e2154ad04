"""The proxy right before every dms-ingest, known by the name of its host: its addresses change with its container."""

import asyncio
import socket
import time
from ipaddress import ip_network

import structlog

from nexarch.client_address import Network

log = structlog.get_logger(__name__)

_KEPT_S = 1.0


class Front:
    """Whom a host's name stands for, asked anew once a second at most; nobody for None."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._networks: tuple[Network, ...] | None = None  # None: never asked
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    async def networks(self) -> tuple[Network, ...]:
        """Its addresses, each as a network of one; none while its name is unknown."""
        if self._host is None:
            return ()
        if self._networks is not None and (time.monotonic() <= self._good_until or self._asking.locked()):
            return self._networks  # while one asks, the others go on with what was known
        async with self._asking:
            if self._networks is None or time.monotonic() > self._good_until:
                self._networks = await _addresses(self._host)
                self._good_until = time.monotonic() + _KEPT_S
        return self._networks


async def _addresses(host: str) -> tuple[Network, ...]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        log.warning(
            "the proxy in front has no address, so what it says of its clients is not believed", reason=str(error)
        )
        return ()
    return tuple(ip_network(str(address[0]).partition("%")[0]) for *_, address in found)
