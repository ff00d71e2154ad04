"""Talking tus 1.0 to a dms-ingest, header by header."""

import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from multidict import CIMultiDictProxy

from support.ingest import Ingest, Person

CHUNK_TYPE = "application/offset+octet-stream"
VERSION = {"Tus-Resumable": "1.0.0"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `problem` is the JSON of an error."""

    status: int
    headers: CIMultiDictProxy[str]
    problem: Any

    @property
    def offset(self) -> int:
        """`Upload-Offset`."""
        return int(self.headers["Upload-Offset"])

    @property
    def document_id(self) -> str | None:
        """`Nexarch-Document-Id`."""
        return self.headers.get("Nexarch-Document-Id")


def metadata(**pairs: str) -> dict[str, str]:
    """The header `Upload-Metadata`."""
    encoded = (f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
    return {"Upload-Metadata": ",".join(encoded)}


@dataclass(frozen=True, slots=True)
class Tus:
    """Someone who speaks tus."""

    ingest: Ingest
    person: Person

    async def call(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
    ) -> Answer:
        """A request with these headers and no others but the token; bytes go with Content-Length, others chunked."""
        body = BytesIO(data) if isinstance(data, bytes) else data
        async with self.ingest.session.request(
            method, self.ingest.url + path, headers=self.person.headers | (headers or {}), data=body
        ) as response:
            content = await response.read()
            problem = await response.json(content_type=None) if content else None
            return Answer(response.status, response.headers, problem)

    async def create(self, size: int, **pairs: str) -> str:
        """Open an upload of a PDF, or of what `pairs` say; returns its path."""
        pairs = {"filename": "Bericht.pdf", "filetype": "application/pdf"} | pairs
        answer = await self.call("POST", "/files/", VERSION | {"Upload-Length": str(size)} | metadata(**pairs))
        assert answer.status == 201, answer.problem
        return answer.headers["Location"]

    async def head(self, path: str) -> Answer:
        """Ask how far an upload is."""
        return await self.call("HEAD", path, VERSION)

    async def patch(self, path: str, offset: int, data: bytes | AsyncIterator[bytes], **headers: str) -> Answer:
        """Send a chunk; `headers` are named as Upload_Checksum."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = VERSION | {"Content-Type": CHUNK_TYPE, "Upload-Offset": str(offset)} | more
        return await self.call("PATCH", path, sent, data)


async def in_pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """The bytes as a body whose length is not said."""
    for at in range(0, len(content), size):
        yield content[at : at + size]


async def document_of(tus: Tus, document_id: str | None) -> tuple[str, int, str]:
    """Name, size and digest of a document, and its bytes are those."""
    _, document = await tus.ingest.call(tus.person, "GET", f"/v1/documents/{document_id}")
    url = f"{tus.ingest.url}/v1/documents/{document_id}/content"
    async with tus.ingest.session.get(url, headers=tus.person.headers) as response:
        content = await response.read()
    revision = document["current_revision"]
    assert hashlib.sha256(content).hexdigest() == revision["sha256"]
    return document["name"], revision["size"], revision["sha256"]


async def number_of_documents(tus: Tus) -> int:
    """How many documents there are, of a page."""
    _, page = await tus.ingest.call(tus.person, "GET", "/v1/documents")
    return len(page["items"])
