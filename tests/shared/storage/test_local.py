import asyncio
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nexarch.errors import InsufficientStorage
from nexarch.storage import (
    Chunk,
    NoSignedUrl,
    ObjectNotFound,
    StorageSettings,
    UnsafeKey,
    local,
    open_storage,
    revision_key,
)
from nexarch.storage.local import INCOMING, LocalStorage
from nexarch.threads import run_in_thread
from support.objects import stream

KEY = "documents/one"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
async def storage(base: Path) -> AsyncIterator[LocalStorage]:
    store = LocalStorage(base)
    await store.ensure_bucket("acme")
    yield store
    store.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def temporary_files(base: Path) -> list[Path]:
    return list((base / "acme" / INCOMING).iterdir())


async def test_the_settings_name_the_folder(tmp_path: Path) -> None:
    settings = StorageSettings(storage_dir=tmp_path / "deep" / "objects")

    async with open_storage(settings) as storage:
        await storage.ensure_bucket("acme")
        await storage.put("acme", revision_key(UUID(int=1), UUID(int=2)), stream(b"x"))

    assert (
        tmp_path / "deep/objects/acme/documents/00000000-0000-0000-0000-000000000001"
        "/revisions/00000000-0000-0000-0000-000000000002"
    ).read_bytes() == b"x"


async def test_a_finished_object_leaves_no_temporary_file_and_is_for_the_service_only(
    storage: LocalStorage, base: Path
) -> None:
    await storage.put("acme", KEY, stream(b"x"))

    assert temporary_files(base) == []
    assert (base / "acme" / KEY).stat().st_mode & 0o777 == 0o600


async def test_an_object_is_not_to_be_seen_before_it_is_whole(storage: LocalStorage, base: Path) -> None:
    seen = []

    async def watched() -> AsyncIterator[Chunk]:
        yield b"half"
        seen.append((len(temporary_files(base)), (base / "acme" / KEY).exists()))
        yield b"whole"

    await storage.put("acme", KEY, watched())

    assert seen == [(1, False)]


def refusing(function: Callable[..., Any], after: int, number: int) -> Callable[..., Any]:
    """Return an os function that the kernel answers with an error after some calls, as a full disk does."""
    calls = iter(range(after))

    def answer(*args: object, **kwargs: object) -> object:
        if next(calls, None) is None:
            raise OSError(number, os.strerror(number))
        return function(*args, **kwargs)

    return answer


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(("name", "after"), [("write", 0), ("write", 1), ("fsync", 0), ("mkdir", 0), ("link", 0)])
async def test_a_full_disk_is_told_and_leaves_nothing(
    storage: LocalStorage, base: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int, number: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, name, refusing(getattr(os, name), after, number))
        with pytest.raises(InsufficientStorage, match="disk of the object store is full"):
            await storage.put("acme", KEY, stream(b"one", b"two"))

    assert temporary_files(base) == []
    with pytest.raises(ObjectNotFound):
        await storage.head("acme", KEY)


async def test_every_change_is_on_the_disk_before_it_is_reported(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync = os.fsync

    def recording_sync(file: int) -> None:
        steps.append(f"sync {'folder' if stat.S_ISDIR(os.fstat(file).st_mode) else 'file'}")
        fsync(file)

    def recording(name: str) -> Callable[..., object]:
        function = getattr(os, name)

        def call(*args: object, **kwargs: object) -> object:
            steps.append(name)
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", recording_sync)
        for name in ("mkdir", "link", "unlink"):
            patched.setattr(os, name, recording(name))
        await storage.put("acme", KEY, stream(b"x"))
        put, steps = steps, []
        await storage.delete("acme", KEY)

    # The last unlink of a put is that of the temporary name: where it comes back after a crash, the sweep finds it.
    assert put == ["mkdir", "sync folder", "sync file", "link", "sync folder", "unlink"]
    assert steps == ["unlink", "sync folder"]


async def test_a_short_write_goes_on_where_it_stopped(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: write(file, data[:2]))
        size = await storage.put("acme", KEY, stream(b"12345", b"678"))

    async with storage.get("acme", KEY) as chunks:
        assert [bytes(chunk) async for chunk in chunks] == [b"12345678"]
    assert size == 8


async def test_a_symbolic_link_is_never_followed(storage: LocalStorage, base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "one").write_bytes(b"secret")
    (base / "acme" / "documents").symlink_to(outside)
    (base / "acme" / "link").symlink_to(outside / "one")

    for key in (KEY, "link"):
        with pytest.raises(ObjectNotFound):
            await storage.head("acme", key)
        with pytest.raises(ObjectNotFound):
            await storage.get("acme", key).__aenter__()
    with pytest.raises(ObjectNotFound):
        await storage.delete("acme", KEY)
    with pytest.raises(UnsafeKey):
        await storage.put("acme", KEY, stream(b"overwritten"))
    with pytest.raises(UnsafeKey):
        await storage.put("acme", "link", stream(b"overwritten"))
    listed = [stored.key async for stored in storage.list_objects("acme")]

    assert (outside / "one").read_bytes() == b"secret"
    assert listed == []


async def test_a_bucket_that_is_a_symbolic_link_is_not_one(storage: LocalStorage, base: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (base / "beta").symlink_to(tmp_path / "outside")

    with pytest.raises(NotADirectoryError):
        await storage.ensure_bucket("beta")

    assert list((tmp_path / "outside").iterdir()) == []


async def test_a_pipe_in_the_place_of_an_object_does_not_hang(storage: LocalStorage, base: Path) -> None:
    os.mkfifo(base / "acme" / "pipe")

    async with asyncio.timeout(5):
        with pytest.raises(ObjectNotFound):
            await storage.get("acme", "pipe").__aenter__()
        with pytest.raises(ObjectNotFound):
            await storage.head("acme", "pipe")


async def test_the_chunks_of_a_closed_object_end(storage: LocalStorage) -> None:
    await storage.put("acme", KEY, stream(bytes(3 << 20)))
    async with storage.get("acme", KEY) as chunks:
        await anext(chunks)

    rest = [chunk async for chunk in chunks]

    assert rest == []


async def test_no_descriptor_is_left_open(storage: LocalStorage) -> None:
    async def failing() -> AsyncIterator[Chunk]:
        yield b"half"
        raise ConnectionResetError

    await storage.put("acme", KEY, stream(b"x"))
    before = open_descriptors()

    await storage.put("acme", "documents/deep/er", stream(b"x"))
    with pytest.raises(ConnectionResetError):
        await storage.put("acme", KEY, failing())
    async with storage.get("acme", KEY) as chunks:
        await anext(chunks)
    with pytest.raises(ObjectNotFound):
        await storage.head("acme", "documents/deep/missing/one")
    with pytest.raises(ObjectNotFound):
        await storage.get("acme", "documents/deep").__aenter__()

    assert open_descriptors() == before


async def test_a_slow_disk_does_not_hold_the_loop(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writing, go_on = os.write, threading.Event(), threading.Event()

    def slow(file: int, data: memoryview) -> int:
        writing.set()
        assert go_on.wait(10)
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", slow)
        put = asyncio.create_task(storage.put("acme", KEY, stream(b"x")))
        async with asyncio.timeout(10):
            await run_in_thread(writing.wait)
            put.cancel()
            await asyncio.sleep(0)
            assert not put.done()  # the thread still uses the chunk and the file
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await put


@pytest.mark.parametrize("blocked", ["fstat", "dup"])  # where get, and where put, holds its first descriptor
async def test_who_is_cancelled_while_a_thread_opens_leaves_no_descriptor(
    storage: LocalStorage, base: Path, monkeypatch: pytest.MonkeyPatch, blocked: str
) -> None:
    await storage.put("acme", KEY, stream(b"x"))
    before = open_descriptors()
    function, opening, go_on = getattr(os, blocked), threading.Event(), threading.Event()

    def slow(file: int) -> object:
        opening.set()
        assert go_on.wait(10)
        return function(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, blocked, slow)
        get, put = storage.get("acme", KEY).__aenter__(), storage.put("acme", KEY, stream(b"y"))
        tasks = [asyncio.ensure_future(call) for call in (get, put)]
        async with asyncio.timeout(10):
            await run_in_thread(opening.wait)
            for task in tasks:
                task.cancel()
            go_on.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [asyncio.CancelledError] * 2
    assert open_descriptors() == before
    assert temporary_files(base) == []


async def test_what_a_killed_put_has_left_is_swept_once_nobody_writes_to_it(storage: LocalStorage, base: Path) -> None:
    left, fresh = base / "acme" / INCOMING / "left", base / "acme" / INCOMING / "fresh"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (1_000_000_000, 1_000_000_000))

    swept = await storage.sweep_incomplete("acme", datetime.now(UTC) - timedelta(hours=1))

    assert swept == 1
    assert temporary_files(base) == [fresh]


async def test_a_listing_that_is_left_early_leaves_no_descriptor(storage: LocalStorage) -> None:
    for number in range(3):
        await storage.put("acme", f"documents/{number}/revisions/1", stream(b"x"))
    before = open_descriptors()

    async with aclosing(storage.list_objects("acme")) as objects:
        await anext(objects)

    assert open_descriptors() == before


async def test_a_file_has_no_address(storage: LocalStorage) -> None:
    with pytest.raises(NoSignedUrl):
        await storage.signed_url("acme", KEY, ttl_s=60)


async def test_a_crowd_of_readers_gets_small_pieces_and_who_comes_later_large_ones_again(
    storage: LocalStorage,
) -> None:
    await storage.put("acme", KEY, stream(bytes(2 * local.READ_SIZE)))

    async def first_piece(standing: AsyncExitStack) -> int:
        chunks = await standing.enter_async_context(storage.get("acme", KEY))
        return len(await anext(chunks))

    async with AsyncExitStack() as crowd:
        sizes = [await first_piece(crowd) for _ in range(local.MANY_READERS + 5)]
    async with AsyncExitStack() as later:
        size_later = await first_piece(later)

    assert sizes == [local.READ_SIZE] * local.MANY_READERS + [local.SMALL_READ_SIZE] * 5
    assert size_later == local.READ_SIZE
