"""What only the S3 driver has: parts, signatures, certificates; against a real server that checks signatures."""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from nexarch.storage import Chunk, ObjectExists, ObjectNotFound, StorageRefused, s3
from nexarch.storage.s3 import S3Storage
from nexarch.storage.s3_parts import FIRST_PART
from support.objects import KEY, TENANT, content, stream
from support.old_s3 import run_old_s3
from support.s3 import open_uploads, opened
from support.seaweedfs import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.object_store

MIB = 1 << 20
LATER = timedelta(days=1)


async def described(storage: S3Storage) -> Any:  # noqa: ANN401 - botocore's answer
    return await storage._client.head_object(Bucket=storage._buckets.bucket(TENANT), Key=KEY, ChecksumMode="ENABLED")


async def test_a_long_object_is_sent_in_parts_each_with_its_digest(storage: S3Storage) -> None:
    whole = secrets.token_bytes(2 * FIRST_PART + 5)

    size = await storage.put(TENANT, KEY, stream(whole[: 3 * MIB], whole[3 * MIB :]))

    assert size == len(whole)
    assert hashlib.sha256(await content(storage)).digest() == hashlib.sha256(whole).digest()
    assert await content(storage, start=FIRST_PART - 3, stop=FIRST_PART + 3) == whole[FIRST_PART - 3 : FIRST_PART + 3]
    assert (await described(storage))["ChecksumSHA256"].endswith("-3")
    assert await open_uploads(storage) == []


async def test_an_object_as_long_as_one_part_takes_one_request(storage: S3Storage) -> None:
    await storage.put(TENANT, KEY, stream(bytes(FIRST_PART)))

    answer = await described(storage)

    assert answer["ContentLength"] == FIRST_PART
    assert "-" not in answer["ETag"]
    assert answer["ChecksumSHA256"]


async def test_a_long_put_under_a_taken_key_is_told_and_leaves_no_upload(storage: S3Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"first"))

    with pytest.raises(ObjectExists):
        await storage.put(TENANT, KEY, stream(bytes(FIRST_PART + 1)))

    assert await content(storage) == b"first"
    assert await open_uploads(storage) == []


async def test_racing_long_puts_leave_one_whole_object_and_no_upload(storage: S3Storage) -> None:
    puts = [storage.put(TENANT, KEY, stream(byte * (FIRST_PART + 1))) for byte in (b"a", b"b", b"c")]

    results = await asyncio.gather(*puts, return_exceptions=True)

    # SeaweedFS looks for the object first and completes then, so that two may win; Amazon lets one.
    assert {type(result) for result in results} <= {int, ObjectExists}
    whole = await content(storage)
    assert (len(whole), len(set(whole))) == (FIRST_PART + 1, 1)
    assert await open_uploads(storage) == []


@pytest.mark.parametrize("sent", [FIRST_PART // 2, FIRST_PART + 1, 2 * FIRST_PART + 1])
async def test_a_cancelled_put_leaves_no_upload(storage: S3Storage, sent: int) -> None:
    asked_again = asyncio.Event()

    async def endless() -> AsyncIterator[Chunk]:
        yield bytes(sent)
        asked_again.set()
        await asyncio.Event().wait()

    put = asyncio.create_task(storage.put(TENANT, KEY, endless()))
    async with asyncio.timeout(30):
        await asked_again.wait()
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put

    assert await open_uploads(storage) == []
    with pytest.raises(ObjectNotFound):
        await storage.head(TENANT, KEY)


async def test_a_put_cancelled_at_any_moment_leaves_no_upload(storage: S3Storage) -> None:
    for pause_ms in range(0, 60, 4):
        put = asyncio.create_task(storage.put(TENANT, KEY, stream(bytes(2 * FIRST_PART + 1))))
        await asyncio.wait([put], timeout=pause_ms / 1000)
        put.cancel()
        await asyncio.wait([put])
        assert await open_uploads(storage) == []
        if put.cancelled():
            continue
        await storage.delete(TENANT, KEY)


async def test_a_stream_that_fails_late_leaves_no_upload(storage: S3Storage) -> None:
    async def failing() -> AsyncIterator[Chunk]:
        yield bytes(2 * FIRST_PART + 1)
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError, match="went away"):
        await storage.put(TENANT, KEY, failing())

    assert await open_uploads(storage) == []


async def test_what_a_killed_put_has_left_is_swept_once_it_is_old(storage: S3Storage) -> None:
    place = {"Bucket": storage._buckets.bucket(TENANT), "Key": KEY}
    await storage._client.create_multipart_upload(**place)

    too_early = await storage.sweep_incomplete(TENANT, datetime.now(UTC) - LATER)
    swept = await storage.sweep_incomplete(TENANT, datetime.now(UTC) + LATER)

    assert (too_early, swept) == (0, 1)
    assert await open_uploads(storage) == []


async def test_a_wrong_secret_is_refused_by_the_name_of_its_setting(
    storage: S3Storage, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await storage.put(TENANT, KEY, stream(b"x"))
    wrong = "a-secret-that-nobody-shall-read"

    async with opened(settings, secret_key=SecretStr(wrong)) as stranger:
        for call in (
            stranger.ensure_bucket(TENANT),
            stranger.put(TENANT, "other", stream(b"x")),
            stranger.put(TENANT, "other", stream(bytes(FIRST_PART + 1))),
            stranger.head(TENANT, KEY),
            stranger.delete(TENANT, KEY),
            content(stranger),
            anext(stranger.list_objects(TENANT)),
        ):
            with pytest.raises(StorageRefused, match="STORAGE_SECRET_KEY") as refused:
                await call
            assert wrong not in refused.value.detail

    assert await content(storage) == b"x"
    for secret in (wrong, settings["storage_secret_key"].get_secret_value(), "Signature="):
        assert secret not in caplog.text


async def test_an_unknown_access_key_is_refused_by_the_name_of_its_setting(settings: dict[str, Any]) -> None:
    async with opened(settings, access_key="nobody") as stranger:
        with pytest.raises(StorageRefused, match="STORAGE_ACCESS_KEY"):
            await stranger.ensure_bucket(TENANT)


async def test_a_certificate_is_trusted_only_if_a_setting_says_so(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server
) -> None:
    await storage.put(TENANT, KEY, stream(b"x"))
    secure = settings | {"storage_endpoint": s3_server.https_url}

    async with opened(secure) as distrustful:
        with pytest.raises(StorageRefused, match="STORAGE_CA"):
            await distrustful.head(TENANT, KEY)
    async with opened(secure, ca=s3_server.certificate) as trusting:
        await trusting.put(TENANT, "documents/other", stream(b"by TLS"))
        assert await content(trusting) == b"x"

    assert await storage.head(TENANT, "documents/other") == 6


async def test_a_signed_url_reads_its_object_until_it_expires_and_nothing_else(storage: S3Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"sealed bytes"))
    await storage.put(TENANT, KEY + "0", stream(b"others"))
    url = await storage.signed_url(TENANT, KEY, ttl_s=60)
    short_lived = await storage.signed_url(TENANT, KEY, ttl_s=1)

    async with aiohttp.ClientSession() as session:

        async def status(method: str, url: str) -> int:
            async with session.request(method, url) as response:
                return response.status

        async with session.get(url) as response:
            read = await response.read()

        async def expired() -> bool:
            return await status("GET", short_lived) == 403

        await eventually(expired)
        still = await status("GET", url)
        others = [
            await status("GET", url.replace("/revisions/1", "/revisions/10")),
            await status("DELETE", url),
            await status("GET", url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")),
            await status("GET", url.partition("?")[0]),
        ]

    assert read == b"sealed bytes"
    assert still == 200
    assert others == [403] * 4


@pytest.mark.parametrize("ttl_s", [0, -1, 7 * 86400 + 1])
async def test_a_signed_url_lives_a_second_to_seven_days(storage: S3Storage, ttl_s: int) -> None:
    with pytest.raises(ValueError, match="seconds"):
        await storage.signed_url(TENANT, KEY, ttl_s=ttl_s)


async def test_bodies_closed_early_give_their_connections_back(
    storage: S3Storage, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.put(TENANT, KEY, stream(bytes(20 * MIB)))
    monkeypatch.setattr(s3, "MOST_CONNECTIONS", 2)

    async with asyncio.timeout(60), opened(settings) as narrow:
        for _ in range(6):
            async with narrow.get(TENANT, KEY) as chunks:
                await anext(chunks)
        for _ in range(6):
            with pytest.raises(ZeroDivisionError):
                async with narrow.get(TENANT, KEY):
                    raise ZeroDivisionError

        assert await narrow.head(TENANT, KEY) == 20 * MIB


@pytest.mark.parametrize("size", [5, FIRST_PART + 5])
async def test_a_server_without_conditions_and_checksums_is_used_without(
    storage: S3Storage, settings: dict[str, Any], s3_server: S3Server, size: int
) -> None:
    whole = secrets.token_bytes(size)

    async with run_old_s3(s3_server.url) as url, opened(settings, endpoint=url) as old:
        stored = await old.put(TENANT, KEY, stream(whole))

        assert await content(old) == whole
    assert stored == size


async def test_memory_stays_the_same_however_long_the_stream(storage: S3Storage) -> None:
    buffer = bytes(MIB)

    async def long(chunks: int) -> AsyncIterator[Chunk]:
        for _ in range(chunks):
            yield buffer

    await storage.put(TENANT, "documents/short", long(32))
    before = peak_bytes(reset=True)
    await storage.put(TENANT, KEY, long(160))
    grown = peak_bytes() - before
    async with storage.get(TENANT, KEY) as chunks:
        size = sum([len(chunk) async for chunk in chunks])

    assert size == 160 * MIB
    assert grown < 64 * MIB


def peak_bytes(*, reset: bool = False) -> int:
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
