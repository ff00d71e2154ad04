"""Answers that are taken slowly hold little, and those that nobody takes are broken off after a while."""

import array
import asyncio
import fcntl
import socket
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from aiohttp import web

log = structlog.get_logger(__name__)

_UNSENT = 1 << 17  # bytes that wait in the socket of a line that may be slow


@contextmanager
def cut_if_silent(request: web.Request, idle_s: float) -> Iterator[None]:
    """While the block sends an answer, break its line off if the client takes not one byte for `idle_s`.

    That is noticed within twice that time. A client who reads slowly is not silent, and we may be slow ourselves: what
    counts is that bytes wait, and that they wait still, also those in the socket: it holds megabytes, and asks for more
    only when a third of them has left.
    """
    loop = asyncio.get_running_loop()
    before: tuple[int, int, int] | None = None
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal before, timer
        transport = request.transport
        if transport is None:
            return
        waiting = transport.get_write_buffer_size()
        now = waiting, request.writer.output_size, _held_by_socket(transport)
        if waiting and now == before:
            log.info("download broken off, as nobody takes it", waiting_bytes=waiting)
            transport.abort()
            return
        before = now
        timer = loop.call_later(idle_s, look)

    timer = loop.call_later(idle_s, look)
    try:
        yield
    finally:
        timer.cancel()


def keep_little_in_socket(request: web.Request) -> None:
    """Have the kernel take no more than can be sent soon: for a line that stands still it would take 4 MiB."""
    if request.transport is not None:
        line = request.transport.get_extra_info("socket")
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)


def _held_by_socket(transport: asyncio.Transport) -> int:
    """The bytes that the other side has not acknowledged (tcp(7), SIOCOUTQ)."""
    held = array.array("i", [0])
    fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, held)
    return held[0]
