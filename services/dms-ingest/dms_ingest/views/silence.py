"""Answers that nobody takes: their lines are broken off after a while, so that they hold nothing any more."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from aiohttp import web

log = structlog.get_logger(__name__)


@contextmanager
def cut_if_silent(request: web.Request, idle_s: float) -> Iterator[None]:
    """While the block sends an answer, break its line off if the client takes not one byte for `idle_s`.

    That is noticed within twice that time. A client who reads slowly is not silent, and we may be slow ourselves: what
    counts is that bytes wait, and that they wait still.
    """
    loop = asyncio.get_running_loop()
    before: tuple[int, int] | None = None
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal before, timer
        transport = request.transport
        if transport is None:
            return
        waiting = transport.get_write_buffer_size()
        now = waiting, request.writer.output_size
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
