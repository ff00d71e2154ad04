"""The address of who sent a request, also behind proxies that we know."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network


def client_address(peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str | None:
    """The nearest address that is no trusted proxy's: the peer's, or what the proxies in front say of it.

    `forwarded_for` are the values of `X-Forwarded-For` in their order. Each proxy adds at the right whom it heard from,
    so it is read from there, and only as long as who wrote it is trusted: what a client claims itself counts for
    nothing. None for a peer without an address, as on a Unix socket.
    """
    address = _parsed(peer or "")
    if address is None:
        return None
    hops = [hop.strip() for value in forwarded_for for hop in value.split(",")]
    while hops and any(address in network for network in trusted):
        hop = _parsed(hops.pop())
        if hop is None:
            break
        address = hop
    return str(address)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """An address without its scope; IPv4 within IPv6 is IPv4. None for what is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
