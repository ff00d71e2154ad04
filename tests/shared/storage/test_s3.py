"""What only the S3 driver has: parts, signatures, a line that breaks; against a real server that checks signatures."""

import asyncio
import hashlib
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from nexarch.storage import (
    Chunk,
    ObjectExists,
    ObjectNotFound,
    Storage,
    StorageAway,
    StorageRefused,
    StorageSettings,
    open_storage,
    s3,
)
from nexarch.storage.s3 import S3Storage
from nexarch.storage.s3_parts import FIRST_PART
from support.breaking_line import run_proxy
from support.closed_lines import until_sent
from support.lost_answers import run_losing_proxy
from support.old_s3 import run_old_s3
from support.s3 import s3_settings
from support.seaweedfs import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.object_store

KEY = "documents/0198c0de/revisions/1"
TENANT = "acme"
MIB = 1 << 20
LATER = timedelta(days=1)


@pytest.fixture
def settings(s3_server: S3Server) -> dict[str, Any]:
    return s3_settings(s3_server).model_dump(include={f"storage_{name}" for name in _NAMES})


_NAMES = ("driver", "endpoint", "access_key", "secret_key", "bucket")


@pytest.fixture
async def storage(settings: dict[str, Any]) -> AsyncIterator[S3Storage]:
    async with opened(settings) as store:
        await store.ensure_bucket(TENANT)
        yield store


@asynccontextmanager
async def opened(settings: dict[str, Any], **changes: object) -> AsyncIterator[S3Storage]:
    async with open_storage(
        StorageSettings(**settings | {f"storage_{name}": v for name, v in changes.items()})
    ) as store:
        assert isinstance(store, S3Storage)
        yield store
    await until_sent()  # a part that was cancelled leaves some


async def stream(*chunks: Chunk) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk


async def content(storage: Storage, *, start: int = 0, stop: int | None = None) -> bytes:
    async with storage.get(TENANT, KEY, start=start, stop=stop) as chunks:
        return b"".join([bytes(chunk) async for chunk in chunks])


async def open_uploads(storage: S3Storage) -> list[Any]:
    answer = await storage._client.list_multipart_uploads(Bucket=storage._buckets.bucket(TENANT))
    return list(answer.get("Uploads", ()))


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
