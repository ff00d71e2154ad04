"""Waiting for the workers: the state of a document until it is processed or failed."""

import asyncio
import time
from typing import Any

from nexarch.cli.client import Api
from nexarch.cli.failures import Unavailable

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


async def wait_until_processed(api: Api, document_id: str, timeout_s: float) -> dict[str, Any]:
    """The document once it is `processed`, `failed` or `damaged`; `Unavailable` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        document: dict[str, Any] = await api.call("GET", f"/v1/documents/{document_id}")
        if document["processing_state"] in {"processed", "failed", "damaged"}:
            return document
        if time.monotonic() + pause > deadline:
            raise Unavailable(
                f"Stored, but still {document['processing_state']} after {timeout_s:g} s.",
                hint=f"`nexarch documents show {document_id}` shows its state, `nexarch jobs list` the queue.",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
