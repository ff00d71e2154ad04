"""The raw body of a request, to the last byte that came."""

from aiohttp import StreamReader


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
            return await self._content.readany()
        except Exception as error:
            if rest := self._content._read_nowait(-1):  # noqa: SLF001 - no public call gives these bytes
                self._broken = error
                return rest
            raise
