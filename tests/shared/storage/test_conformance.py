"""What every storage driver must do; each test runs once per driver.

On S3 both with a bucket for each tenant and with one for all; and on the server that NEXARCH_TEST_S3_ENDPOINT,
NEXARCH_TEST_S3_ACCESS_KEY and NEXARCH_TEST_S3_SECRET_KEY name, if they are set.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nexarch.storage import (
    BucketNotFound,
    Chunk,
    ObjectExists,
    ObjectNotFound,
    Storage,
    StorageSettings,
    UnsafeKey,
    open_storage,
)
from support.objects import KEY, TENANT, content, stream
from support.s3 import given_settings, is_server_given, own_bucket, s3_settings

DRIVERS = [
    "local",
    *(pytest.param(driver, marks=pytest.mark.object_store) for driver in ("s3", "s3 in one bucket")),
    *(["given s3"] if is_server_given() else []),
]


def driver_settings(driver: str, request: pytest.FixtureRequest) -> StorageSettings:
    if driver == "local":
        folder: Path = request.getfixturevalue("tmp_path")
        return StorageSettings(storage_dir=folder / "objects")
    if driver == "given s3":
        return given_settings()
    bucket = own_bucket()
    shared = bucket.removesuffix("-{tenant}")
    return s3_settings(request.getfixturevalue("s3_server"), storage_bucket=bucket if driver == "s3" else shared)


@pytest.fixture(params=DRIVERS)
async def storage(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    async with open_storage(driver_settings(request.param, request)) as store:
        await store.ensure_bucket(TENANT)
        yield store


async def test_what_was_put_can_be_read_whole_and_has_its_size(storage: Storage) -> None:
    size = await storage.put(TENANT, KEY, stream(b"one", bytearray(b"two"), b"", memoryview(b"three")))

    assert size == 11
    assert await storage.head(TENANT, KEY) == 11
    assert await content(storage) == b"onetwothree"


async def test_an_empty_object_is_an_object(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream())

    assert await storage.head(TENANT, KEY) == 0
    assert await content(storage) == b""


async def test_an_object_of_many_reads_comes_back_in_order(storage: Storage) -> None:
    whole = bytes(range(256)) * 4096 * 3 + b"rest"

    await storage.put(TENANT, KEY, stream(whole[:70_000], whole[70_000:]))

    assert await content(storage) == whole


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (3, 7), (5, None), (0, 0), (9, 10), (8, 99), (10, None), (42, 43)])
async def test_a_range_is_the_slice_of_the_object(storage: Storage, start: int, stop: int | None) -> None:
    whole = b"0123456789"
    await storage.put(TENANT, KEY, stream(whole))

    assert await content(storage, start=start, stop=stop) == whole[start:stop]


async def test_a_range_that_ends_before_it_begins_is_a_mistake_of_the_caller(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"0123456789"))

    for start, stop in ((5, 4), (-1, 3)):
        with pytest.raises(ValueError, match="not a range"):
            await content(storage, start=start, stop=stop)


async def test_a_chunk_is_used_up_before_the_next_is_asked_for(storage: Storage) -> None:
    buffer = bytearray(3)

    async def reusing() -> AsyncIterator[Chunk]:
        for part in (b"abc", b"def", b"ghi"):
            buffer[:] = part
            yield buffer

    await storage.put(TENANT, KEY, reusing())

    assert await content(storage) == b"abcdefghi"


async def test_a_missing_object_is_not_found_by_get_head_and_delete(storage: Storage) -> None:
    for tenant in (TENANT, "nobody"):
        with pytest.raises(ObjectNotFound):
            await storage.head(tenant, KEY)
        with pytest.raises(ObjectNotFound):
            await storage.delete(tenant, KEY)
        with pytest.raises(ObjectNotFound):
            await storage.get(tenant, KEY).__aenter__()


async def test_a_part_of_a_key_is_no_object(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"x"))

    for key in ("documents", "documents/0198c0de", KEY + "/deeper"):
        with pytest.raises(ObjectNotFound):
            await storage.head(TENANT, key)
        with pytest.raises(ObjectNotFound):
            await content(storage, key)
        with pytest.raises(ObjectNotFound):
            await storage.delete(TENANT, key)


async def test_a_deleted_object_is_gone_and_its_neighbour_stays(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"one"))
    await storage.put(TENANT, KEY + "0", stream(b"ten"))

    await storage.delete(TENANT, KEY)

    with pytest.raises(ObjectNotFound):
        await storage.head(TENANT, KEY)
    assert await content(storage, KEY + "0") == b"ten"


async def test_chunks_come_as_what_a_function_makes_of_them_in_a_thread(storage: Storage) -> None:
    text = os.urandom(5_000_000)
    await storage.put(TENANT, KEY, stream(text))
    threads: set[int] = set()

    def invert_first(chunk: memoryview) -> memoryview:
        threads.add(threading.get_ident())
        return memoryview(bytes([chunk[0] ^ 0xFF]) + chunk[1:])

    async with storage.get(TENANT, KEY, start=10, through=invert_first) as chunks:
        received = [bytes(chunk) async for chunk in chunks]

    assert b"".join(bytes([chunk[0] ^ 0xFF]) + chunk[1:] for chunk in received) == text[10:]
    assert received[0][0] == text[10] ^ 0xFF
    assert threading.get_ident() not in threads


async def test_an_error_of_that_function_ends_the_reading(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"text"))

    def refuse(chunk: memoryview) -> memoryview:
        raise LookupError(bytes(chunk))

    with pytest.raises(LookupError):
        async with storage.get(TENANT, KEY, through=refuse) as chunks:
            await anext(chunks)
    assert await content(storage) == b"text"


async def test_a_deleted_object_is_read_to_its_end_by_who_began_before(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(bytes(3 << 20)))

    async with storage.get(TENANT, KEY) as chunks:
        size = len(await anext(chunks))
        await storage.delete(TENANT, KEY)
        async for chunk in chunks:
            size += len(chunk)

    assert size == 3 << 20


async def test_tenants_do_not_see_each_others_objects(storage: Storage) -> None:
    await storage.ensure_bucket("beta")
    await storage.put("beta", KEY, stream(b"of beta"))

    with pytest.raises(ObjectNotFound):
        await storage.head(TENANT, KEY)


async def test_a_bucket_is_made_once_and_its_objects_stay(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"x"))

    await storage.ensure_bucket(TENANT)

    assert await content(storage) == b"x"


async def test_nothing_can_be_put_without_a_bucket(storage: Storage) -> None:
    with pytest.raises(BucketNotFound):
        await storage.put("nobody", KEY, stream(b"x"))


async def test_an_object_is_written_once(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"first"))

    with pytest.raises(ObjectExists):
        await storage.put(TENANT, KEY, stream(b"a longer second one"))

    assert await content(storage) == b"first"


async def test_the_key_of_a_deleted_object_may_be_used_again(storage: Storage) -> None:
    await storage.put(TENANT, KEY, stream(b"first"))
    await storage.delete(TENANT, KEY)

    await storage.put(TENANT, KEY, stream(b"second"))

    assert await content(storage) == b"second"


async def test_of_racing_puts_one_wins_and_the_others_are_told(storage: Storage) -> None:
    async def slowly(byte: bytes) -> AsyncIterator[Chunk]:
        for _ in range(20):
            yield byte * 10_000
            await asyncio.sleep(0)

    puts = [storage.put(TENANT, KEY, slowly(byte)) for byte in (b"a", b"b", b"c", b"d")]
    results = await asyncio.gather(*puts, return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["ObjectExists"] * 3 + ["int"]
    (winner,) = (byte for byte, result in zip(b"abcd", results, strict=True) if result == 200_000)
    assert await content(storage) == bytes([winner]) * 200_000


async def keys(storage: Storage, *, prefix: str = "", after: str = "", tenant: str = TENANT) -> list[str]:
    return [stored.key async for stored in storage.list_objects(tenant, prefix=prefix, after=after)]


async def test_a_listing_tells_key_size_and_time_of_every_object(storage: Storage) -> None:
    began = datetime.now(UTC) - timedelta(minutes=5)  # a server's clock may differ, and S3 counts whole seconds
    await storage.put(TENANT, KEY, stream(b"five!"))

    (stored,) = [stored async for stored in storage.list_objects(TENANT)]

    assert (stored.key, stored.size_bytes) == (KEY, 5)
    assert began < stored.modified_at < began + timedelta(minutes=10)


async def test_a_listing_goes_in_ascending_order_and_may_begin_anywhere(storage: Storage) -> None:
    in_order = ["a/1", "a/2", "a/B/3", "a/b", "aa", "b/x/1", "b/y"]
    for key in reversed(in_order):
        await storage.put(TENANT, key, stream(b"x"))
    await storage.ensure_bucket("beta")
    await storage.put("beta", "a/of-beta", stream(b"x"))

    assert await keys(storage) == in_order
    assert await keys(storage, prefix="a/") == ["a/1", "a/2", "a/B/3", "a/b"]
    assert await keys(storage, prefix="a") == in_order[:5]
    assert await keys(storage, after="a/2") == in_order[2:]
    assert await keys(storage, after="a/3") == in_order[2:]
    assert await keys(storage, prefix="a/", after="a/B/3") == ["a/b"]
    assert await keys(storage, after="z") == []


async def test_an_empty_bucket_has_an_empty_listing_and_a_missing_one_none(storage: Storage) -> None:
    assert await keys(storage) == []
    with pytest.raises(BucketNotFound):
        await keys(storage, tenant="nobody")
    with pytest.raises(BucketNotFound):
        await storage.sweep_incomplete("nobody", datetime.now(UTC))


async def test_a_stream_that_fails_stores_nothing(storage: Storage) -> None:
    async def failing() -> AsyncIterator[Chunk]:
        yield b"half"
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError, match="went away"):
        await storage.put(TENANT, KEY, failing())

    assert await keys(storage) == []
    assert await storage.sweep_incomplete(TENANT, datetime.now(UTC) + timedelta(days=1)) == 0


async def test_a_cancelled_put_stores_nothing(storage: Storage) -> None:
    asked_twice = asyncio.Event()

    async def endless() -> AsyncIterator[Chunk]:
        yield b"half"
        asked_twice.set()
        await asyncio.Event().wait()

    put = asyncio.create_task(storage.put(TENANT, KEY, endless()))
    async with asyncio.timeout(10):
        await asked_twice.wait()
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put

    assert await keys(storage) == []
    assert await storage.sweep_incomplete(TENANT, datetime.now(UTC) + timedelta(days=1)) == 0


UNSAFE_KEYS = (
    *("", "/", "/etc/passwd", "..", "../beta/x", "a/../b", "a//b", "a/", ".", "a/./b", ".hidden", "a\x00b"),
    *("a\\b", "a b", "ä", "%2e%2e", "a\n", "x" * 101, "/".join(["x" * 99] * 10)),
)


async def test_a_key_that_could_mean_another_place_is_refused(storage: Storage) -> None:
    for key in UNSAFE_KEYS:
        with pytest.raises(UnsafeKey):
            await storage.put(TENANT, key, stream(b"x"))
        with pytest.raises(UnsafeKey):
            await content(storage, key)
        with pytest.raises(UnsafeKey):
            await storage.head(TENANT, key)
        with pytest.raises(UnsafeKey):
            await storage.delete(TENANT, key)
        with pytest.raises(UnsafeKey):
            await storage.signed_url(TENANT, key, ttl_s=60)


async def test_a_tenant_that_could_mean_another_place_is_refused(storage: Storage) -> None:
    for tenant in ("", ".", "..", "a/b", "/", "a\x00"):
        with pytest.raises(UnsafeKey):
            await storage.ensure_bucket(tenant)
        with pytest.raises(UnsafeKey):
            await storage.put(tenant, KEY, stream(b"x"))
        with pytest.raises(UnsafeKey):
            await keys(storage, tenant=tenant)
        with pytest.raises(UnsafeKey):
            await storage.sweep_incomplete(tenant, datetime.now(UTC))
