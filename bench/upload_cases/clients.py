"""What sends and fetches: one connection, no more work than it takes, the same for ours and for the others."""

import base64
import json
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

PIECE = 8 << 20  # bytes of a PATCH
_TUS = {"Tus-Resumable": "1.0.0"}


class Connection:
    """One connection to a service; every answer must be a success."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        address = urlsplit(url)
        self.url = url
        self._connection = HTTPConnection(address.hostname or "", address.port)
        self._headers = dict(headers or {})
        self._sink = memoryview(bytearray(1 << 20))

    def ask(
        self, method: str, path: str, body: bytes | memoryview | None = None, headers: Mapping[str, str] | None = None
    ) -> HTTPResponse:
        """Send a request and return the answer, whose body is still to come."""
        self._connection.request(method, path, body, self._headers | dict(headers or {}))
        answer = self._connection.getresponse()
        assert answer.status < 300, (method, path, answer.status, answer.read())
        return answer

    def call(self, method: str, path: str, **fields: object) -> Any:  # noqa: ANN401 - JSON
        """Send JSON and return what comes back."""
        body = json.dumps(fields).encode() if fields else None
        content = self.ask(method, path, body, {"Content-Type": "application/json"}).read()
        return json.loads(content) if content else None

    def fetch(self, path: str, headers: Mapping[str, str] | None = None) -> int:
        """Get something and throw it away; returns how many bytes it had."""
        answer = self.ask("GET", path, headers=headers)
        size = 0
        while count := answer.readinto(self._sink):
            size += count
        return size


class TusUpload:
    """One upload by tus 1.0 core, in pieces of 8 MiB."""

    def __init__(self, connection: Connection, path: str, size: int, **metadata: str) -> None:
        pairs = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items())
        headers = _TUS | {"Upload-Length": str(size)} | ({"Upload-Metadata": pairs} if pairs else {})
        answer = connection.ask("POST", path, headers=headers)
        answer.read()
        self._connection = connection
        self._path = urlsplit(answer.headers["Location"]).path
        self._offset = 0

    def send(self, content: memoryview) -> float:
        """Send some more bytes and return the seconds it took."""
        begin = time.perf_counter()
        for start in range(0, len(content), PIECE):
            self.patch(content[start : start + PIECE])
        return time.perf_counter() - begin

    def patch(self, piece: memoryview) -> HTTPResponse:
        """Send one piece; returns the answer, read to its end."""
        headers = _TUS | {"Upload-Offset": str(self._offset), "Content-Type": "application/offset+octet-stream"}
        answer = self._connection.ask("PATCH", self._path, piece, headers)
        answer.read()
        self._offset += len(piece)
        return answer

    def end(self) -> None:
        """Take it back."""
        self._connection.ask("DELETE", self._path, headers=_TUS).read()
