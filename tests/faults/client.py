"""A client as docs/uploads.md wants it: it waits as long as it is told, asks how far it came, and goes on there.

What it is answered is counted. What no correct client should meet is counted as wrong; for a while it is tried again.
"""

import asyncio
import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import aiohttp

from faults.documents import File
from faults.stack import Stack

CHUNK = 4 << 20  # bytes of one request
_TUS = {"Tus-Resumable": "1.0.0"}
_CHUNK_TYPE = "application/offset+octet-stream"
_LINE_PAUSE_S = 0.5  # after a line that broke
_WRONG_PAUSE_S = 1.0
_MOST_WRONG = 30  # answers to one client in one upload
_FRESH_S = 60.0  # of a token that is good for 15 minutes
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=90)

# A correct client may be told these, if it is told when to come again.
_AGAIN = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE}


@dataclass(slots=True)
class Seen:
    """What the clients met, by what it was: how often; and what they sent while `stands` was set."""

    allowed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    stands: bool = False
    uploads_meanwhile: int = 0  # begun
    requests_meanwhile: int = 0  # sent
    done_meanwhile: int = 0  # of these requests: those that succeeded, be it later


@dataclass(frozen=True, slots=True)
class Halfway:
    """Half of a body is sent: the client says so, and sends the rest when it is told to go on."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


Body = BytesIO | AsyncIterator[bytes] | None


class GivenUp(Exception):
    """An upload that cannot be done: it is refused again and again."""


class Interrupted(Exception):
    """The request came to nothing; go on with the upload after `pause_s` seconds."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self.pause_s = pause_s


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    headers: Mapping[str, str]
    body: Any  # JSON


@dataclass(slots=True)
class _Upload:
    """How far an upload is, as the client knows it."""

    file: File
    content: bytes
    key: str = field(default_factory=lambda: str(uuid4()))
    place: str | None = None  # its path, once it is opened


class Client:
    """Uploads files for a user of the stack, and downloads them."""

    def __init__(self, http: aiohttp.ClientSession, stack: Stack, seen: Callable[[], Seen]) -> None:
        self._http = http
        self._stack = stack
        self._seen = seen
        self._token = ""
        self._token_at = 0.0
        self._wrong = 0
        self._halfway: Halfway | None = None

    async def upload(self, file: File, halfway: Halfway | None = None) -> UUID:
        """Upload a file, however long it takes, and return the document's id: from now on it is acknowledged.

        With `halfway` the first body stops there. Raises GivenUp where wrong answers do not end.
        """
        self._wrong = 0
        self._halfway = halfway
        upload = _Upload(file, await asyncio.to_thread(file.content))
        self._seen().uploads_meanwhile += self._seen().stands
        attempt = self._by_tus if file.face == "tus" else self._by_json
        while True:
            try:
                return await attempt(upload)
            except Interrupted as interrupted:
                await asyncio.sleep(interrupted.pause_s)

    async def sha256(self, document_id: UUID) -> str:
        """Download a document and return the digest of what came; OSError where it cannot be had whole."""
        url = f"{self._stack.ingest_url}/v1/documents/{document_id}/content"
        digest = hashlib.sha256()
        async with self._http.get(url, headers=await self._authorization()) as response:
            if response.status != HTTPStatus.OK:
                raise OSError(f"status {response.status}: {await response.text()}")
            async for piece in response.content.iter_chunked(1 << 20):
                digest.update(piece)
        return digest.hexdigest()

    async def _by_json(self, upload: _Upload) -> UUID:
        if upload.place is None:
            announced = {
                "filename": upload.file.name,
                "mime_type": upload.file.mime_type,
                "size": upload.file.size,
                "sha256": hashlib.sha256(upload.content).hexdigest(),
            }
            made = await self._ask("POST", "/v1/uploads", {"Idempotency-Key": upload.key}, fields=announced)
            upload.place = f"/v1/uploads/{made.body['id']}"
        asked = await self._ask("GET", upload.place)
        for gap in asked.body["missing"]:
            for start in range(gap["start"], gap["end"], CHUNK):
                data = upload.content[start : min(start + CHUNK, gap["end"])]
                await self._ask("PUT", f"{upload.place}/content?offset={start}", data=data)
        document = await self._ask("POST", f"{upload.place}/complete")
        return UUID(document.body["id"])

    async def _by_tus(self, upload: _Upload) -> UUID:
        if upload.place is None:
            sha256 = hashlib.sha256(upload.content).hexdigest()
            pairs = {"filename": upload.file.name, "filetype": upload.file.mime_type, "sha256": sha256}
            metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
            headers = {"Upload-Length": str(upload.file.size), "Upload-Metadata": metadata}
            made = await self._ask("POST", "/files/", _TUS | headers)
            upload.place = made.headers["Location"]
        answer = await self._ask("HEAD", upload.place, _TUS)
        while (document_id := answer.headers.get("Nexarch-Document-Id")) is None:
            offset = int(answer.headers["Upload-Offset"])
            headers = {"Content-Type": _CHUNK_TYPE, "Upload-Offset": str(offset)}
            data = upload.content[offset : offset + CHUNK]
            answer = await self._ask("PATCH", upload.place, _TUS | headers, data=data)
        return UUID(document_id)

    async def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        fields: object = None,
        data: bytes = b"",
    ) -> Answer:
        sent = dict(headers or {}) | await self._authorization()
        answer = await self._request(method, self._stack.ingest_url + path, sent, fields, self._body(sent, data))
        self._seen().sent_bytes += len(data)
        return answer

    def _body(self, headers: dict[str, str], data: bytes) -> Body:
        if not data:
            return None
        if self._halfway is None:
            return BytesIO(data)
        headers["Content-Length"] = str(len(data))
        halfway, self._halfway = self._halfway, None
        return _halves(data, halfway)

    async def _authorization(self) -> dict[str, str]:
        if time.monotonic() > self._token_at + _FRESH_S:
            try:
                await self._sign_in()
            except Interrupted:
                if not self._token:
                    raise
        return {"Authorization": f"Bearer {self._token}"}

    async def _sign_in(self) -> None:
        login = {"tenant": self._stack.tenant, "email": self._stack.email, "password": self._stack.password}
        answer = await self._request("POST", f"{self._stack.core_url}/v1/auth/token", {}, login, None)
        self._token = answer.body["access_token"]
        self._token_at = time.monotonic()

    async def _request(self, method: str, url: str, headers: Mapping[str, str], fields: object, body: Body) -> Answer:
        """Make a request whose success is all that the caller knows what to do with; else raise Interrupted."""
        seen = self._seen()
        meanwhile = seen.stands
        seen.requests_meanwhile += meanwhile
        try:
            async with self._http.request(
                method, url, headers=headers, json=fields, data=body, timeout=_TIMEOUT
            ) as response:
                content = _json(await response.read())
                if response.status < HTTPStatus.BAD_REQUEST:
                    seen.done_meanwhile += meanwhile
                    return Answer(response.headers, content)
                raise self._refusal(method, response, content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._seen().allowed[_name(error)] += 1
            raise Interrupted(_LINE_PAUSE_S) from error

    def _refusal(self, method: str, response: aiohttp.ClientResponse, content: object) -> Interrupted:
        code = str(content["type"]).rpartition("/")[2] if isinstance(content, dict) and "type" in content else ""
        name = f"{response.status} {code or f'to {method}'}"  # the answer to HEAD has no body
        again_s = response.headers.get("Retry-After")
        if response.status in _AGAIN and again_s is not None:
            self._seen().allowed[name] += 1
            return Interrupted(float(again_s))
        why = "" if again_s else ", no Retry-After"
        self._seen().wrong[f"{name} to {method} {_route(response.url.path)}{why}"] += 1
        self._wrong += 1
        if self._wrong > _MOST_WRONG:
            raise GivenUp(f"{method} {_route(response.url.path)} is answered {name} again and again")
        return Interrupted(float(again_s or _WRONG_PAUSE_S))


async def _halves(data: bytes, halfway: Halfway) -> AsyncIterator[bytes]:
    middle = len(data) // 2
    yield data[:middle]
    halfway.reached.set()
    await halfway.go_on.wait()
    yield data[middle:]


def _json(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """What it holds; None where it holds none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def _route(path: str) -> str:
    """The path with `{id}` for an id."""
    return "/".join("{id}" if part.count("-") == 4 else part for part in path.split("/"))


def _name(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorError():
            return "no connection"
        case TimeoutError():
            return "silent line"
        case _:
            return "broken line"
