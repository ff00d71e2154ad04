import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from nexarch.crypto.envelope import new_dek
from nexarch.crypto.layout import NXO1, ObjectDamaged, object_aad
from nexarch.crypto.segments import Sealer
from nexarch.objects import open_object, seal_stream
from nexarch.storage import ObjectNotFound, local
from nexarch.storage.local import LocalStorage
from support.files import open_files

KEY = "documents/one"
AAD = object_aad(UUID(int=1), UUID(int=2), UUID(int=3))
DEK = new_dek()
TEXT = os.urandom(9_000_001)  # 35 segments, five reads
LAST = 34  # segment


async def put(storage: LocalStorage, text: bytes, chunk_size: int = 70_000) -> int:
    async def chunks() -> AsyncIterator[bytearray]:
        buffer = bytearray(chunk_size)
        for start in range(0, len(text), chunk_size):
            buffer[:] = text[start : start + chunk_size]
            yield buffer

    return await storage.put("acme", KEY, seal_stream(Sealer(DEK, AAD), chunks()))


async def read(storage: LocalStorage, size: int, *, start: int = 0, stop: int | None = None, aad: bytes = AAD) -> bytes:
    async with open_object(
        storage, "acme", KEY, dek=DEK, aad=aad, plaintext_size=size, start=start, stop=stop
    ) as chunks:
        return b"".join([bytes(chunk) async for chunk in chunks])


@pytest.mark.parametrize("size", [0, 1, 262_112, 262_113, len(TEXT)])
async def test_what_is_sealed_into_the_store_opens_again(storage: LocalStorage, size: int) -> None:
    stored_size = await put(storage, TEXT[:size])

    assert stored_size == NXO1.object_size(size)
    assert await read(storage, size) == TEXT[:size]


async def test_nothing_readable_lies_in_the_store(storage: LocalStorage, tmp_path: Path) -> None:
    await put(storage, b"a sentence that is long enough" * 10)

    assert b"sentence" not in (tmp_path / "acme" / KEY).read_bytes()


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (262_111, 262_113), (262_112, 524_224), (1_000_000, 8_900_000), (9_000_000, None), (5, 5)],
)
async def test_a_range_is_the_slice_of_the_plaintext(storage: LocalStorage, start: int, stop: int | None) -> None:
    await put(storage, TEXT)

    assert await read(storage, len(TEXT), start=start, stop=stop) == TEXT[start:stop]


@pytest.mark.parametrize("read_size", [100_000, 262_144, local.READ_SIZE])
async def test_a_chunk_stays_what_it_is_while_the_next_one_is_made(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, read_size: int
) -> None:
    monkeypatch.setattr(local, "READ_SIZE", read_size)  # as pieces come from other stores: some open to nothing
    await put(storage, TEXT)
    before, received = asyncio.all_tasks(), 0

    async with open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=len(TEXT)) as chunks:
        async for chunk in chunks:
            await all_ended(before)

            assert chunk == TEXT[received : received + len(chunk)]
            received += len(chunk)

    assert received == len(TEXT)


async def all_ended(but: set[asyncio.Task[object]]) -> None:
    """Wait until nobody works any more but this task, and those that did before."""
    others = asyncio.all_tasks() - but
    if others:
        await asyncio.wait(others)


async def test_who_leaves_early_leaves_nobody_at_work_and_nothing_open(storage: LocalStorage) -> None:
    await put(storage, TEXT)
    before, files = asyncio.all_tasks(), open_files()

    async with open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=len(TEXT)) as chunks:
        await anext(chunks)
        assert asyncio.all_tasks() != before  # somebody makes the next one

    assert asyncio.all_tasks() == before
    assert open_files() == files


async def test_who_is_cancelled_again_and_again_waits_for_the_thread(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(storage, TEXT)
    files = open_files()
    let_go, reading = threading.Event(), threading.Event()
    read = os.preadv

    def read_late(file: int, buffers: list[memoryview], offset: int) -> int:
        if offset:
            reading.set()
            let_go.wait()
        return read(file, buffers, offset)

    monkeypatch.setattr(os, "preadv", read_late)

    async def receive() -> None:
        async with open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=len(TEXT)) as chunks:
            await anext(chunks)
            await asyncio.Event().wait()  # as for a client who takes nothing more

    receiving = asyncio.create_task(receive())
    await asyncio.to_thread(reading.wait)
    for _ in range(3):
        receiving.cancel()
        await asyncio.wait([receiving], timeout=0.01)
    assert not receiving.done()
    let_go.set()

    with pytest.raises(asyncio.CancelledError):
        await receiving
    assert open_files() == files


async def test_a_missing_object_is_told_on_entering(storage: LocalStorage) -> None:
    with pytest.raises(ObjectNotFound):
        await open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=1).__aenter__()


async def test_a_wrong_size_place_header_or_first_segment_is_told_on_entering(
    storage: LocalStorage, tmp_path: Path
) -> None:
    await put(storage, TEXT)

    async def enter(*, aad: bytes = AAD, size: int = len(TEXT)) -> None:
        await open_object(storage, "acme", KEY, dek=DEK, aad=aad, plaintext_size=size, stop=9).__aenter__()

    with pytest.raises(ObjectDamaged, match="header tag"):
        await enter(aad=object_aad(UUID(int=1), UUID(int=2), UUID(int=4)))
    with pytest.raises(ObjectDamaged, match="bytes sealed"):
        await enter(size=len(TEXT) + 1)
    flip(tmp_path, 100)
    with pytest.raises(ObjectDamaged, match="Segment 0"):
        await enter()
    flip(tmp_path, 0)
    with pytest.raises(ObjectDamaged, match="prefix"):
        await enter()


async def test_damage_further_on_breaks_the_stream_after_what_was_good(storage: LocalStorage, tmp_path: Path) -> None:
    await put(storage, TEXT)
    flip(tmp_path, NXO1.object_size(len(TEXT)) - 1)
    received = bytearray()

    async def receive() -> None:
        async with open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=len(TEXT)) as chunks:
            async for chunk in chunks:
                received.extend(chunk)

    with pytest.raises(ObjectDamaged, match=f"Segment {LAST}"):
        await receive()

    assert 0 < len(received) < len(TEXT)
    assert received == TEXT[: len(received)]


async def test_a_range_before_a_cut_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    await put(storage, TEXT)
    os.truncate(tmp_path / "acme" / KEY, 82 + 262_144)

    with pytest.raises(ObjectDamaged, match="not 9000001 bytes sealed"):
        await read(storage, len(TEXT), start=0, stop=10)


async def test_an_object_cut_while_it_is_read_breaks_the_stream(storage: LocalStorage, tmp_path: Path) -> None:
    await put(storage, TEXT)

    async with open_object(storage, "acme", KEY, dek=DEK, aad=AAD, plaintext_size=len(TEXT)) as chunks:
        os.truncate(tmp_path / "acme" / KEY, 82 + 8 * 262_144)

        with pytest.raises(ObjectDamaged, match=f"ends before the end of segment {LAST}"):
            assert [chunk async for chunk in chunks] == []


def flip(base: Path, offset: int) -> None:
    with (base / "acme" / KEY).open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
