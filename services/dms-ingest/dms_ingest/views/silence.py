"""Answers that nobody takes: their lines are broken off after a while, so that they hold nothing any more."""

import array
import asyncio
import fcntl
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from aiohttp import web

log = structlog.get_logger(__name__)


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


def _held_by_socket(transport: asyncio.Transport) -> int:
    """The bytes that the other side has not acknowledged (tcp(7), SIOCOUTQ)."""
    held = array.array("i", [0])
    fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, held)
    return held[0]
