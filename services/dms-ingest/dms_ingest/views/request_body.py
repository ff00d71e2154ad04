"""The raw body of a request, to the last byte that came."""

from aiohttp import StreamReader, web

from nexarch.errors import UnsupportedType


def raw_body(request: web.Request) -> "RequestBody":
    """The body that a request is about to send; UnsupportedType if it comes in a coding."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedType("The bytes are taken as they are: send no Content-Encoding.")
    return RequestBody(request.content)


class RequestBody:
    """Gives every byte that reached us before the line broke, and only then what broke it.

    aiohttp's reader raises at once when the line breaks, and drops what it still holds: up to 384 KiB here.
    """

    def __init__(self, content: StreamReader) -> None:
        self._content = content
        self._broken: Exception | None = None

    async def read(self) -> bytes:
        """Some bytes, b"" at the end; raises ConnectionResetError and the like where the line broke."""
        if self._broken is not None:
            raise self._broken
        try:
            return await self._piece()
        except Exception as error:  # whatever broke the line: it goes up, after the bytes that came before it
            if rest := self._content._read_nowait(-1):  # noqa: SLF001 - no public call gives these bytes
                self._broken = error
                return rest
            raise

    async def _piece(self) -> bytes:
        """One piece as it came off the line; `readany` would copy all that wait into one, a sixth of the work."""
        while True:
            piece, is_chunk_end = await self._content.readchunk()
            if piece or not is_chunk_end or self._content.at_eof():
                return piece
