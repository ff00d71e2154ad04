"""A large file on its way in and out takes no more memory than a small one."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from support.ingest import PDF, ingest_settings, run_ingest_process, sign_in
from support.services import CoreApi

pytestmark = pytest.mark.database

MIB = 1 << 20
SIZE = 256 * MIB


async def content(digest: "hashlib._Hash") -> AsyncIterator[bytes]:
    """256 MiB that begin like a PDF, in pieces of 1 MiB; the digest takes them too."""
    piece = bytearray(Random(1).randbytes(MIB))
    piece[: len(PDF)] = PDF
    for number in range(SIZE // MIB):
        piece[-4:] = number.to_bytes(4, "big")
        digest.update(piece)
        yield bytes(piece)


async def test_256_mib_in_and_out_grow_the_process_by_less_than_48_mib(
    core_api: CoreApi, bus_dsn: str, tmp_path: Path
) -> None:
    person = await sign_in(core_api)
    sent, received = hashlib.sha256(), hashlib.sha256()
    async with run_ingest_process(ingest_settings(core_api, bus_dsn, tmp_path)) as (ingest, process):
        small = await ingest.upload(person, PDF)
        url = f"{ingest.url}/v1/documents/{{}}/content"
        async with ingest.session.get(url.format(small["id"]), headers=person.headers) as response:
            await response.read()
        before = process.reset_peak()

        upload_id = await ingest.open_upload(person, SIZE)
        await ingest.put(person, upload_id, content(sent))
        _, large = await ingest.complete(person, upload_id)
        async with ingest.session.get(url.format(large["id"]), headers=person.headers) as response:
            async for chunk in response.content.iter_chunked(MIB):
                received.update(chunk)
        peak = process.peak_bytes()

    assert received.digest() == sent.digest()
    assert large["current_revision"]["sha256"] == sent.hexdigest()
    assert peak - before < 48 * MIB
