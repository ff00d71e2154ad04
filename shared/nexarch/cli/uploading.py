"""One resumable upload over `/v1/uploads`: what the server has is asked for, what it lacks is sent.

The file is hashed before (some 2 GB/s, far more than a line carries), so that the server compares and a run that
goes on after another knows that it is still the same file. A PUT that breaks costs nothing that arrived: the server
keeps it, and after a pause the missing ranges are asked for again.
"""

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from nexarch.cli.client import Api
from nexarch.cli.failures import Failure, NotAuthorised, NotFound, Unavailable
from nexarch.cli.retrying import Patience
from nexarch.cli.upload_state import UploadKey, UploadState, forget_state, read_state, write_state

CHUNK = 8 << 20  # bytes of one PUT
_PIECE = 256 << 10  # bytes between two steps of the progress bar
_PUT_TIMEOUT_S = 600.0
_GO_ON = "Run the same command again: it goes on where it stopped."

# Called with the bytes done and what is being done: "hashing" or "sending".
Progress = Callable[[str, int], None]
Range = tuple[int, int]  # first byte, and the one after the last


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """What to upload and as what."""

    path: Path
    filename: str
    mime_type: str
    folder_id: UUID | None = None
    document_id: UUID | None = None  # of the document that gets a new revision


async def upload_file(
    api: Api, tenant: str, request: UploadRequest, *, retry_for_s: float, progress: Progress
) -> dict[str, Any]:
    """Upload a file and return the answer of `complete`; goes on with an upload that an earlier run began.

    Raises `Unavailable` after `retry_for_s` seconds without progress, `Failure` if the server refuses or the file
    changes meanwhile.
    """
    descriptor = os.open(request.path, os.O_RDONLY)
    try:
        before = os.fstat(descriptor)
        key = _key(api, tenant, request, before)
        patience = Patience(retry_for_s)
        state = await _known_upload(api, key, patience)
        if state is None:
            sha256 = await _hash(descriptor, before.st_size, progress)
            state = await _create(api, request, before.st_size, sha256, patience)
            write_state(key, state)
        await _send_missing(api, state, descriptor, before.st_size, patience, progress)
        after = os.fstat(descriptor)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            forget_state(key)
            raise Failure(f"{request.path} changed while it was sent.", hint="Upload it again when it is at rest.")
        return await _complete(api, state, patience, key)
    finally:
        os.close(descriptor)


def _key(api: Api, tenant: str, request: UploadRequest, stat: os.stat_result) -> UploadKey:
    asked = "\n".join(
        str(part) for part in (request.filename, request.mime_type, request.folder_id, request.document_id)
    )
    return UploadKey(
        server=api.url,
        tenant=tenant,
        path=str(request.path.resolve()),
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        request=asked,
    )


async def _known_upload(api: Api, key: UploadKey, patience: Patience) -> UploadState | None:
    """The upload of an earlier run, if the server still has it."""
    state = read_state(key)
    if state is None:
        return None
    try:
        await _patiently(patience, api, "GET", f"/v1/uploads/{state.upload_id}")
    except NotFound:
        forget_state(key)
        return None
    return state


async def _hash(descriptor: int, size: int, progress: Progress) -> str:
    digest = hashlib.sha256()
    done = 0
    while piece := await asyncio.to_thread(os.pread, descriptor, CHUNK, done):
        await asyncio.to_thread(digest.update, piece)
        done += len(piece)
        progress("hashing", done)
    if done != size:
        raise Failure("The file changed while it was read.", hint="Upload it again when it is at rest.")
    return digest.hexdigest()


async def _create(api: Api, request: UploadRequest, size: int, sha256: str, patience: Patience) -> UploadState:
    body: dict[str, Any] = {
        "filename": request.filename,
        "mime_type": request.mime_type,
        "size": size,
        "sha256": sha256,
    }
    if request.folder_id is not None:
        body["folder_id"] = str(request.folder_id)
    if request.document_id is not None:
        body["document_id"] = str(request.document_id)
    # After a lost answer the same key finds the session that was made.
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    session = await _patiently(patience, api, "POST", "/v1/uploads", body, headers)
    return UploadState(upload_id=UUID(session["id"]), sha256=sha256)


async def _send_missing(
    api: Api, state: UploadState, descriptor: int, size: int, patience: Patience, progress: Progress
) -> None:
    """Send until the server lacks nothing."""
    best = -1
    while True:
        session = await _patiently(patience, api, "GET", f"/v1/uploads/{state.upload_id}")
        missing = [(int(gap["start"]), int(gap["end"])) for gap in session["missing"]]
        received = int(session["received_bytes"])
        progress("sending", received)
        if not missing:
            return
        if received > best:
            best = received
            patience.progressed()
        try:
            await _send(api, state.upload_id, descriptor, missing, received, patience, progress)
        except Unavailable as failure:
            await patience.after(failure, _GO_ON)


async def _send(
    api: Api,
    upload_id: UUID,
    descriptor: int,
    missing: list[Range],
    received: int,
    patience: Patience,
    progress: Progress,
) -> None:
    for start, end in missing:
        for offset in range(start, end, CHUNK):
            chunk = await asyncio.to_thread(os.pread, descriptor, min(CHUNK, end - offset), offset)
            if not chunk:
                raise Failure("The file became shorter while it was sent.", hint="Upload it again when it is at rest.")
            await _put(api, upload_id, offset, chunk, received, progress)
            received += len(chunk)
            patience.progressed()


async def _put(api: Api, upload_id: UUID, offset: int, chunk: bytes, received: int, progress: Progress) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(chunk), _PIECE):
            yield chunk[at : at + _PIECE]
            progress("sending", received + min(at + _PIECE, len(chunk)))

    path = f"/v1/uploads/{upload_id}/content"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(chunk))}
    try:
        async with (
            asyncio.timeout(_PUT_TIMEOUT_S),
            api.request("PUT", path, params={"offset": str(offset)}, data=pieces(), headers=headers) as response,
        ):
            await response.read()
    except TimeoutError as error:
        raise Unavailable(f"{api.service} at {api.url} takes too long.") from error


async def _complete(api: Api, state: UploadState, patience: Patience, key: UploadKey) -> dict[str, Any]:
    """Make the document; asked again after a lost answer, the server gives the same one."""
    path = f"/v1/uploads/{state.upload_id}/complete"
    try:
        document: dict[str, Any] = await _patiently(patience, api, "POST", path)
    except (Unavailable, NotAuthorised):
        raise
    except Failure:
        forget_state(key)  # refused for good: the next run begins anew
        raise
    forget_state(key)
    return document


async def _patiently(
    patience: Patience, api: Api, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Any:  # noqa: ANN401 - JSON
    while True:
        try:
            return await api.call(method, path, json=body, headers=headers)
        except Unavailable as failure:
            await patience.after(failure, _GO_ON)
