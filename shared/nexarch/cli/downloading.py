"""One download that survives broken lines: resumed by byte range, checked by digest, renamed when whole.

The ETag of a revision is the SHA-256 of its content, so a range is only ever joined to bytes of the same content
(`If-Range`), and the whole is compared at the end.
"""

import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from nexarch.cli.client import Api
from nexarch.cli.failures import Failure, Unavailable
from nexarch.cli.retrying import Patience

_PIECE = 1 << 20  # bytes
_GO_ON = "Run the same command again: it goes on where it stopped."

Progress = Callable[[int], None]  # bytes done


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a download will give."""

    path: str  # of the URL
    etag: str
    sha256: str
    size_bytes: int
    filename: str


def cut_name(name: str, most_bytes: int) -> str:
    """The name in at most so many bytes of UTF-8, its extension kept."""
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension.encode()) > 16:
        stem, dot, extension = name, "", ""
    room = most_bytes - len((dot + extension).encode())
    return stem.encode()[:room].decode(errors="ignore") + dot + extension


async def look_up(api: Api, path: str) -> Content:
    """Ask for size, digest and name without the content."""
    async with api.request("HEAD", path) as response:
        etag = response.headers.get("ETag", "")
        sha256 = etag.strip('"')
        if len(sha256) != 64:
            raise Failure(f"{api.service} sends no SHA-256 of the content.", hint="Is its version older than this one?")
        disposition = response.content_disposition
        return Content(
            path=path,
            etag=etag,
            sha256=sha256,
            size_bytes=int(response.headers["Content-Length"]),
            filename=(disposition and disposition.filename) or sha256,
        )


async def download_to_file(
    api: Api, content: Content, destination: Path, *, retry_for_s: float, progress: Progress
) -> None:
    """Write the content to a file that appears only when it is whole and its digest is right.

    Until then the bytes stand beside it in a hidden file, from which the next run goes on.
    """
    part = destination.with_name(f".{cut_name(destination.name, 100)}.{content.sha256[:16]}.part")
    with part.open("a+b") as file:
        _lock(file, part)
        digest = hashlib.sha256()
        file.seek(0)
        while piece := file.read(_PIECE):
            digest.update(piece)
        start = file.tell()
        if start > content.size_bytes:
            file.truncate(0)
            digest, start = hashlib.sha256(), 0
        progress(start)
        async for piece in _pieces(api, content, start, retry_for_s):
            file.write(piece)
            digest.update(piece)
            start += len(piece)
            progress(start)
        file.flush()
        os.fsync(file.fileno())
        if digest.hexdigest() != content.sha256:
            part.unlink()
            raise _wrong_digest(content, digest.hexdigest())
        part.replace(destination)


async def download_to_stream(
    api: Api, content: Content, out: BinaryIO, *, retry_for_s: float, progress: Progress
) -> None:
    """Write the content to a stream as it comes; a wrong digest is only known at the end."""
    digest = hashlib.sha256()
    done = 0
    async for piece in _pieces(api, content, 0, retry_for_s):
        out.write(piece)
        digest.update(piece)
        done += len(piece)
        progress(done)
    out.flush()
    if digest.hexdigest() != content.sha256:
        raise _wrong_digest(content, digest.hexdigest())


async def _pieces(api: Api, content: Content, start: int, retry_for_s: float) -> AsyncIterator[bytes]:
    """The bytes from `start` to the end, over as many requests as it takes."""
    patience = Patience(retry_for_s)
    while start < content.size_bytes:
        headers = {"Range": f"bytes={start}-", "If-Range": content.etag} if start else {}
        try:
            async with api.request("GET", content.path, headers=headers) as response:
                if start and response.status != HTTPStatus.PARTIAL_CONTENT:
                    raise Failure("The content changed while it was downloaded.", hint="Run the same command again.")
                async for piece in response.content.iter_chunked(_PIECE):
                    start += len(piece)
                    patience.progressed()
                    yield piece
        except Unavailable as failure:
            await patience.after(failure, _GO_ON)


def _lock(file: BinaryIO, part: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failure(f"Another download writes to {part}.", hint="Wait for it, or choose another --output.") from error


def _wrong_digest(content: Content, got: str) -> Failure:
    return Failure(f"The content is damaged: its SHA-256 is {got}, not {content.sha256}.", code="wrong-digest")
