"""Lines to an S3 server that break, lose an answer or fall silent."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nexarch.storage import Chunk, ObjectNotFound, StorageAway, s3
from nexarch.storage.s3 import S3Storage
from nexarch.storage.s3_parts import FIRST_PART
from support.breaking_line import run_proxy
from support.lost_answers import run_losing_proxy
from support.objects import KEY, TENANT, content, stream
from support.s3 import open_uploads, opened
from support.seaweedfs import S3Server

pytestmark = pytest.mark.object_store

MIB = 1 << 20
LATER = timedelta(days=1)


async def test_a_line_cut_in_the_middle_of_a_part_costs_that_part_only(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server
) -> None:
    whole = secrets.token_bytes(2 * FIRST_PART + 5)

    async with run_proxy(s3_server.url) as line, opened(settings, endpoint=line.url) as far:
        line.cut_sent_at = [FIRST_PART // 2, FIRST_PART + FIRST_PART // 2]
        await far.put(TENANT, KEY, stream(whole))
        sent = line.sent

    assert await content(storage) == whole
    assert sent < 2 * len(whole) + 2 * FIRST_PART
    assert await open_uploads(storage) == []


async def test_a_line_that_stays_cut_ends_the_put_and_what_is_left_is_swept(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server
) -> None:
    async with run_proxy(s3_server.url) as line, opened(settings, endpoint=line.url) as far:
        line.cut_sent_at, line.close_at_cut = [FIRST_PART + MIB] * 9, True  # every connection there is, and no other
        with pytest.raises(StorageAway, match="STORAGE_ENDPOINT"):
            await far.put(TENANT, KEY, stream(bytes(3 * FIRST_PART)))

    with pytest.raises(ObjectNotFound):
        await storage.head(TENANT, KEY)
    assert await storage.sweep_incomplete(TENANT, datetime.now(UTC) + LATER) == 1


@pytest.mark.parametrize("size", [5, FIRST_PART + 5])
async def test_a_put_whose_answer_is_lost_is_known_as_our_own(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server, size: int
) -> None:
    whole = secrets.token_bytes(size)

    async def losing_the_last() -> AsyncIterator[Chunk]:
        yield whole
        line.to_lose = 1 if size < FIRST_PART else 0

    async with run_losing_proxy(s3_server.url) as line, opened(settings, endpoint=line.url) as far:
        if size > FIRST_PART:
            complete = far._client.complete_multipart_upload

            async def complete_unheard(**arguments: object) -> object:
                line.to_lose = 1
                return await complete(**arguments)

            far._client.complete_multipart_upload = complete_unheard
        stored = await far.put(TENANT, KEY, losing_the_last())

    assert line.to_lose == 0
    assert stored == size
    assert await content(storage) == whole


async def test_a_read_that_is_cut_breaks_off_instead_of_ending(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server
) -> None:
    await storage.put(TENANT, KEY, stream(bytes(20 * MIB)))

    async with run_proxy(s3_server.url) as line, opened(settings, endpoint=line.url) as far:
        line.cut_received_at = [5 * MIB]
        with pytest.raises(StorageAway):
            await content(far)


async def test_a_server_that_is_away_is_told_and_asked_again_a_few_times_only(settings: dict[str, Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with asyncio.timeout(60), opened(settings, endpoint=nobody) as far:
            for call in (far.head(TENANT, KEY), far.put(TENANT, KEY, stream(b"x"))):
                with pytest.raises(StorageAway, match="STORAGE_ENDPOINT") as away:
                    await call
                assert away.value.members["retry_after_s"] == 5


async def test_a_silent_server_does_not_hold_us_for_ever(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_SILENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel takes the connections, nobody reads
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with asyncio.timeout(60), opened(settings, endpoint=url) as far:
            with pytest.raises(StorageAway):
                await far.head(TENANT, KEY)
