"""The demonstration: documents go in through the public HTTP interfaces, and what comes out is compared.

Each document is uploaded in chunks, processed by a worker that the doorbell woke, searched for by what it holds, and
downloaded again; SHA-256 of what went in and what came out must be the same.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nexarch.cli.client import Api, documents_api, open_session, operator_api
from nexarch.cli.downloading import download_to_file, look_up
from nexarch.cli.failures import Failure
from nexarch.cli.media_types import media_type
from nexarch.cli.processing import wait_until_processed
from nexarch.cli.target import Target
from nexarch.cli.uploading import UploadRequest, upload_file
from nexarch.up.home import Demo
from nexarch.up.samples import Sample

_PROCESSED_WITHIN_S = 180.0
_RETRY_FOR_S = 30.0
_WORDS_TRIED = 300
_SEARCHES_AT_ONCE = 8
# Latin words that a search easily loses: with a letter outside ASCII, or a pair that is often set as one glyph.
_HARD_WORD = re.compile(r"\b(?=[a-zA-Z]*(?:[À-ɏ]|ff|fi|fl))[a-zA-ZÀ-ɏ]{5,30}\b")


@dataclass(slots=True)
class Outcome:
    """What happened to one document; times in seconds."""

    name: str
    size: int
    upload_s: float = 0.0
    processed_s: float = 0.0  # from the answer of the upload until a worker was done
    state: str = ""
    error: str = ""  # the code of what kept a worker from reading it
    searches: int = 0
    searches_that_hit: int = 0
    found_by: set[str] = field(default_factory=set)  # of the words that were asked for
    problems: list[str] = field(default_factory=list)


class Display(Protocol):
    """What the demonstration tells while it runs."""

    def step(self, document: str, what: str) -> None:
        """A document has reached a new state."""

    def transfer(self, document: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
        """A progress bar; the function given takes the bytes done."""


async def prepare_tenant(target: Target, demo: Demo) -> None:
    """Make the tenant and its user unless an earlier run did."""
    async with open_session() as session:
        core = operator_api(session, target)
        await _unless_there(core, "/v1/tenants", {"slug": demo["tenant"], "name": "Demonstration"})
        user = {"email": demo["email"], "password": demo["password"], "role": "admin", "display_name": "Demo"}
        await _unless_there(core, f"/v1/tenants/{demo['tenant']}/users", user)


async def _unless_there(core: Api, path: str, body: dict[str, str]) -> None:
    try:
        await core.call("POST", path, json=body)
    except Failure as failure:
        if failure.code not in {"slug-taken", "email-taken"}:
            raise


async def demonstrate(target: Target, samples: Iterable[Sample], scratch: Path, display: Display) -> list[Outcome]:
    """Take every document through."""
    async with open_session() as session:
        ingest = documents_api(session, target)
        return [await _take_through(ingest, target, sample, scratch, display) for sample in samples]


async def _take_through(ingest: Api, target: Target, sample: Sample, scratch: Path, display: Display) -> Outcome:
    outcome = Outcome(sample.file.name, sample.file.stat().st_size)
    started = time.monotonic()
    document = await _upload(ingest, target, sample, outcome, display)
    uploaded = time.monotonic()
    outcome.upload_s = uploaded - started
    display.step(outcome.name, f"stored, {document['processing_state']}")
    document = await wait_until_processed(ingest, document["id"], _PROCESSED_WITHIN_S)
    outcome.processed_s = time.monotonic() - uploaded
    _compare_state(document, sample, outcome)
    display.step(outcome.name, f"{outcome.state}: {outcome.error}" if outcome.error else outcome.state)
    if document["processing_state"] == "processed":
        await _search(ingest, document["id"], sample, outcome, display)
        if sample.foreign:
            await _search_hard_words(ingest, document["id"], outcome, display)
    await _download(ingest, document["id"], sample, scratch, outcome, display)
    return outcome


async def _upload(ingest: Api, target: Target, sample: Sample, outcome: Outcome, display: Display) -> dict[str, Any]:
    request = UploadRequest(path=sample.file, filename=sample.file.name, mime_type=sample.mime_type)
    with display.transfer(f"upload {outcome.name}", outcome.size) as bar:
        return await upload_file(
            ingest, target.tenant or "", request, retry_for_s=_RETRY_FOR_S, progress=lambda _doing, done: bar(done)
        )


def _compare_state(document: dict[str, Any], sample: Sample, outcome: Outcome) -> None:
    error = document.get("processing_error")
    outcome.state = document["processing_state"]
    outcome.error = error["code"] if error else ""
    if sample.fails is not None and (error is None or error["code"] != sample.fails):
        outcome.problems.append(f"should have failed with {sample.fails}")
    if sample.fails is None and not sample.foreign and error is not None:
        outcome.problems.append(error["detail"])


async def _search(ingest: Api, document_id: str, sample: Sample, outcome: Outcome, display: Display) -> None:
    """By the words that must find it; a foreign file may lack some of them, if another one has them."""
    for word in sample.finds:
        if await _finds(ingest, word, document_id):
            outcome.found_by.add(word)
            display.step(outcome.name, f"found by {word}")
        elif not sample.foreign:
            outcome.problems.append(f"not found by {word}")
    outcome.searches += len(outcome.found_by) if sample.foreign else len(sample.finds)
    outcome.searches_that_hit += len(outcome.found_by)


async def _search_hard_words(ingest: Api, document_id: str, outcome: Outcome, display: Display) -> None:
    """Every word of a foreign file that is easily lost must find it, up to a few hundred of them."""
    async with ingest.request("GET", f"/v1/documents/{document_id}/text") as response:
        text = await response.text()
    hard = sorted(set(_HARD_WORD.findall(text)))
    step = max(1, len(hard) // _WORDS_TRIED)
    tried = hard[::step][:_WORDS_TRIED]
    gate = asyncio.Semaphore(_SEARCHES_AT_ONCE)

    async def lost(word: str) -> str | None:
        async with gate:
            return None if await _finds(ingest, word, document_id) else word

    missed = [word for word in await asyncio.gather(*(lost(word) for word in tried)) if word is not None]
    outcome.searches += len(tried)
    outcome.searches_that_hit += len(tried) - len(missed)
    if tried:
        hits = ", ".join(word for word in tried if word not in missed)
        display.step(
            outcome.name,
            f"{len(tried) - len(missed)} of {len(tried)} words with special letters or ligatures find it: {hits}",
        )
    if missed:
        outcome.problems.append(f"not found by {', '.join(missed[:5])}")


async def _finds(ingest: Api, word: str, document_id: str) -> bool:
    page = await ingest.page("/v1/search", {"q": word}, None, None)
    return any(hit["document_id"] == document_id for hit in page["items"])


async def _download(
    ingest: Api, document_id: str, sample: Sample, scratch: Path, outcome: Outcome, display: Display
) -> None:
    destination = scratch / sample.file.name
    destination.unlink(missing_ok=True)
    content = await look_up(ingest, f"/v1/documents/{document_id}/content")
    with display.transfer(f"download {outcome.name}", outcome.size) as bar:
        await download_to_file(ingest, content, destination, retry_for_s=_RETRY_FOR_S, progress=bar)
    before, after = _sha256(sample.file), _sha256(destination)
    if before != after:
        outcome.problems.append(f"SHA-256 differs: {before[:12]} went in, {after[:12]} came out")
    destination.unlink()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def foreign_sample(file: Path, words: tuple[str, ...]) -> Sample:
    """A user's own file, which may be unreadable; `words` are what the user looks for in it."""
    return Sample(file, media_type(file.name), finds=words, foreign=True)
