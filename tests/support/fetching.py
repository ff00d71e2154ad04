"""Downloads, read to their end, and the files behind them."""

from pathlib import Path
from typing import Any

import aiohttp

from support.ingest import Ingest, Person, stored_folder

Json = dict[str, Any]


def content_path(document: Json) -> str:
    return f"/v1/documents/{document['id']}/content"


def object_file(ingest: Ingest, person: Person, document: Json) -> Path:
    revision = document["current_revision"]["id"]
    return stored_folder(ingest.settings, person) / f"documents/{document['id']}/revisions/{revision}"


class Answer:
    """A response that was read to its end."""

    def __init__(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = body


async def fetch(
    ingest: Ingest, person: Person | None, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> Answer:
    all_headers = ({} if person is None else person.headers) | (headers or {})
    async with ingest.session.request(method, ingest.url + path, headers=all_headers) as response:
        return Answer(response, await response.read())
