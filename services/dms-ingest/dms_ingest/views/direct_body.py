"""The rest of a request's body, read from the socket straight to where it is wanted.

Through aiohttp every byte is copied three times before it lies where a handler wants it, a quarter of the event loop's
work on a chunk. So this protocol stands in for aiohttp's at the transport while a large body comes: the kernel writes
into the caller's buffer. It never asks for more than the body, so what follows, the next request, is aiohttp's again.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.http import HttpRequestParser
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE

# A slow line gives out what came so often, a fast one when the room is full: each time costs the loop some steps.
_GIVE_OUT_S = 0.005
_SCRATCH = 1 << 16


class DirectBody(asyncio.BufferedProtocol):
    """Takes `length` bytes that are still to come off the line of a request; aiohttp holds none of them yet.

    Afterwards the request is for aiohttp as if it had seen them. Unless all are read, `discard` must be called.
    """

    def __init__(self, request: web.Request, transport: asyncio.Transport, length: int) -> None:
        self._handler = request.protocol
        self._content = request.content
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._to_come = length
        self._room = memoryview(b"")  # of the one who waits
        self._took: Callable[[int], None] = _nobody
        self._wakes = self._loop.create_future()
        self._gives_out: asyncio.TimerHandle | None = None
        self._discards = False
        # aiohttp tells the body, and nobody else, that the line broke or that the process stops.
        self._ended = self._loop.create_task(self._content.wait_eof())
        self._ended.add_done_callback(self._told)
        transport.set_protocol(self)

    async def read_into(self, room: memoryview, took: Callable[[int], None]) -> bool:
        """As `dms_ingest.line.Source` says; raises ConnectionResetError and the like where the line broke."""
        if self._to_come == 0:
            return False
        if (error := self._content.exception()) is not None:
            raise error
        self._room, self._took = room[: self._to_come], took
        self._wakes = self._loop.create_future()
        self._transport.resume_reading()
        try:
            await self._wakes
        except BaseException:
            if self._to_come:  # else the line is aiohttp's again
                self._transport.pause_reading()
            raise
        finally:
            self._room, self._took = memoryview(b""), _nobody
            if self._gives_out is not None:
                self._gives_out.cancel()
                self._gives_out = None
        return True

    def discard(self) -> None:
        """Let what is still to come be thrown away, for as long as aiohttp waits for it."""
        if self._to_come and self._content.exception() is None:
            self._discards = True
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the kernel puts what comes next."""
        return memoryview(bytearray(min(_SCRATCH, self._to_come))) if self._discards else self._room

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self._to_come -= nbytes
        self._room = self._room[nbytes:]
        self._took(nbytes)
        if self._to_come == 0:
            self._hand_back()
        if not self._room:
            self._wake()
        elif self._gives_out is None:
            self._gives_out = self._loop.call_later(_GIVE_OUT_S, self._wake)

    def connection_lost(self, exc: Exception | None) -> None:
        """The line is over; aiohttp tells the body."""
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        """For the one who writes the answer."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """For the one who writes the answer."""
        self._handler.resume_writing()

    def _wake(self) -> None:
        if not self._wakes.done():
            self._wakes.set_result(None)
            # Who is woken takes its step before this, and the loop looks at the socket after it.
            self._loop.call_soon(self._pause_unless_wanted)

    def _pause_unless_wanted(self) -> None:
        if self._to_come and not self._room and not self._discards:
            self._transport.pause_reading()

    def _told(self, ended: asyncio.Task[None]) -> None:
        if not ended.cancelled():
            ended.exception()  # `read_into` raises it, after what had come before
        self._wake()

    def _hand_back(self) -> None:
        """Put aiohttp in its place again, with a parser for the next request: its own still waits for this body."""
        handler = self._handler
        handler._parser = HttpRequestParser(  # noqa: SLF001 - as RequestHandler makes it; nothing public does
            handler,
            self._loop,
            self._content.get_read_buffer_limits()[0],
            max_line_size=handler.max_line_size,
            max_field_size=handler.max_field_size,
            max_headers=handler.max_headers,
            payload_exception=web.RequestPayloadError,
            max_msg_queue_size=MAX_MSG_QUEUE_SIZE,
        )
        self._transport.set_protocol(handler)
        self._content.feed_eof()


def _nobody(_: int) -> None:
    """Nobody is told of bytes that are thrown away."""
