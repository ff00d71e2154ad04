"""The raw body of a request, to the last byte that came."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from dms_ingest.views.direct_body import DirectBody
from nexarch.errors import UnsupportedType

_MUCH = 128 << 10  # bytes: for less it is not worth while


@contextmanager
def raw_body(request: web.Request) -> Iterator["RequestBody"]:
    """The body that a request is about to send; UnsupportedType if it comes in a coding."""
    # Each of them: aiohttp undoes the last one, and what it has undone is no measure of what is still to come.
    if any(coding.lower() != "identity" for coding in request.headers.getall("Content-Encoding", ())):
        raise UnsupportedType("The bytes are taken as they are: send no Content-Encoding.")
    body = RequestBody(request)
    try:
        yield body
    finally:
        body.close()


class RequestBody:
    """Gives every byte that reached us before the line broke, and only then what broke it.

    aiohttp's reader raises at once when the line breaks, and drops what it still holds: up to 384 KiB here.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._content = request.content
        self._broken: Exception | None = None
        self._piece = memoryview(b"")
        self._read = 0  # of what aiohttp took off the line
        self._direct: DirectBody | None = None

    async def read_into(self, room: memoryview, took: Callable[[int], None]) -> bool:
        """As `dms_ingest.line.Source` says; raises ConnectionResetError and the like where the line broke."""
        if self._direct is None and not self._piece:
            self._direct = self._past_aiohttp()
        if self._direct is not None:
            return await self._direct.read_into(room, took)
        if not self._piece:
            self._piece = memoryview(await self._next())
            self._read += len(self._piece)
        count = min(len(room), len(self._piece))
        room[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        took(count)
        return count > 0

    def close(self) -> None:
        """Nobody reads the rest, if there is one."""
        if self._direct is not None:
            self._direct.discard()

    def _past_aiohttp(self) -> DirectBody | None:
        """Take the line over, where all that aiohttp has of the body is read and much is to come."""
        request, content, length = self._request, self._content, self._request.content_length
        if length is None or length - self._read < _MUCH or "Upgrade" in request.headers:
            return None
        if self._read < content.total_bytes or content.exception() is not None or request.transport is None:
            return None
        if request.protocol._close:  # noqa: SLF001 - the process stops: aiohttp drops what comes, and tells nobody
            return None
        return DirectBody(request, request.transport, length - self._read)

    async def _next(self) -> bytes:
        if self._broken is not None:
            raise self._broken
        try:
            return await self._chunk()
        except Exception as error:  # whatever broke the line: it goes up, after the bytes that came before it
            if rest := self._content._read_nowait(-1):  # noqa: SLF001 - no public call gives these bytes
                self._broken = error
                return rest
            raise

    async def _chunk(self) -> bytes:
        """One piece as it came off the line; `readany` would copy all that wait into one, a sixth of the work."""
        while True:
            piece, is_chunk_end = await self._content.readchunk()
            if piece or not is_chunk_end or self._content.at_eof():
                return piece
