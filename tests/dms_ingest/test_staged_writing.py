"""Writing what comes: buffers are kept until they are hashed, and what counts as written lies in the file."""

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from dms_ingest.buffers import Buffers
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import SealedFile
from dms_ingest.slots import SLOT, STRIDE
from dms_ingest.staged_writing import StagedWriter
from dms_ingest.staging import StagedFile, Staging, StagingFull
from support.staging import take
from support.waiting import eventually

SESSION = UUID("01990000-0000-7000-8000-000000000000")
CONTENT = os.urandom(12 * SLOT + 1000)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[StagedFile]:
    file = Staging(tmp_path).open_shared("acme", SESSION)
    yield file
    file.close()


@pytest.fixture
def file(staged: StagedFile) -> SealedFile:
    return SealedFile(staged, bytes(32), SESSION)


def reaches(writer: StagedWriter, count: int) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        return writer.written >= count

    return is_there


def content_of(file: SealedFile, size: int) -> bytes:
    buffer = bytearray(size)
    file.read_into(memoryview(buffer), 0)
    return bytes(buffer)


async def test_a_buffer_is_filled_again_only_when_its_bytes_are_hashed(tmp_path: Path) -> None:
    buffers, hashing, staging = Buffers(SLOT, keep=16), threading.Event(), Staging(tmp_path)
    content = os.urandom(20 * SLOT)
    files = [staging.open_shared("acme", UUID(int=number)) for number in range(3)]
    digests = [RunningDigest() for _ in files]
    for digest in digests:
        digest.then(lambda: hashing.wait(15))  # the hash lags behind
    writers = [
        StagedWriter(SealedFile(file, bytes(32), UUID(int=number)), 0, buffers, digest)
        for number, (file, digest) in enumerate(zip(files, digests, strict=True))
    ]

    written, takers = list[int](), list[asyncio.Task[None]]()
    for writer, most in zip(writers, (12, 4, 4), strict=True):  # the first has more while there are plenty
        takers.append(asyncio.create_task(take(writer, content)))
        await eventually(reaches(writer, most * SLOT))
        await asyncio.wait(takers[-1:], timeout=0.2)
        written.append(writer.written)
    hashing.set()
    await asyncio.gather(*takers)
    await asyncio.gather(*(writer.finish() for writer in writers))

    assert written == [12 * SLOT, 4 * SLOT, 4 * SLOT], "memory is bounded"
    for writer, digest in zip(writers, digests, strict=True):
        assert writer.written == len(content)
        assert await asyncio.to_thread(digest.digest) == hashlib.sha256(content).digest()
    for file in files:
        file.close()


@pytest.mark.parametrize("follows", [True, False])
async def test_buffers_that_several_writers_share_never_mix(tmp_path: Path, *, follows: bool) -> None:
    buffers, staging = Buffers(SLOT, keep=4, many=4, small=SLOT // 4), Staging(tmp_path)
    contents = [os.urandom(size) for size in (5 * SLOT + 1, 3 * SLOT, 1000, 7 * SLOT - 1)]

    async def write(number: int, content: bytes) -> tuple[bytes, bytes | None]:
        session = UUID(int=number)
        staged = staging.open_shared("acme", session)
        file, digest = SealedFile(staged, bytes(32), session), RunningDigest() if follows else None
        for start in range(0, len(content), 300_000):  # as many short requests
            writer = StagedWriter(file, start, buffers, digest)
            for piece in range(start, min(start + 300_000, len(content)), 70_000):
                await take(writer, content[piece : min(piece + 70_000, start + 300_000)])
            await writer.finish()
        stored = await asyncio.to_thread(content_of, file, len(content))
        staged.close()
        return stored, await asyncio.to_thread(digest.digest) if digest is not None else None

    written = await asyncio.gather(*(write(number, content) for number, content in enumerate(contents)))

    for content, (stored, digest) in zip(contents, written, strict=True):
        assert stored == content
        assert digest == (hashlib.sha256(content).digest() if follows else None)


@pytest.mark.parametrize(("code", "raised"), [(errno.EIO, OSError), (errno.ENOSPC, StagingFull)])
async def test_after_a_write_that_failed_nothing_counts_and_nothing_is_written_behind_the_gap(
    file: SealedFile, monkeypatch: pytest.MonkeyPatch, code: int, raised: type[Exception]
) -> None:
    digest, real_write, offsets = RunningDigest(), os.pwrite, list[int]()

    def write(descriptor: int, data: memoryview, offset: int) -> int:
        offsets.append(offset)
        if offset // len(data) == 2:  # the third slot
            raise OSError(code, os.strerror(code))
        return real_write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    writer = StagedWriter(file, 0, Buffers(SLOT, keep=4), digest)

    with pytest.raises(raised) as caught:
        await take(writer, CONTENT)

    assert type(caught.value) is raised
    assert (writer.written, digest.position, writer.full) == (2 * SLOT, 2 * SLOT, raised is StagingFull)
    assert max(offsets) == offsets[-1], "nothing was written further on"
    assert await asyncio.to_thread(digest.digest) == hashlib.sha256(CONTENT[: 2 * SLOT]).digest()


async def test_what_is_written_counts_only_when_it_lies_in_the_file(
    file: SealedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on, real_write = threading.Event(), threading.Event(), os.pwrite

    def write(descriptor: int, data: memoryview, offset: int) -> int:
        writing.set()
        go_on.wait(15)
        return real_write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    writer = StagedWriter(file, 0, Buffers(SLOT))

    await take(writer, CONTENT[:SLOT])
    await asyncio.to_thread(writing.wait, 15)
    before = writer.written
    go_on.set()
    await writer.finish()

    assert (before, writer.written) == (0, SLOT)


async def test_all_buffers_are_given_back_also_by_a_writer_who_was_cancelled(file: SealedFile) -> None:
    buffers, digest = Buffers(SLOT), RunningDigest()
    writer = StagedWriter(file, 0, buffers, digest)
    await take(writer, CONTENT[: 3 * SLOT + 5])
    taking = asyncio.create_task(take(writer, CONTENT[3 * SLOT + 5 :]))
    await asyncio.sleep(0)  # it begins
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    await writer.finish()

    async def all_are_back() -> bool:
        return buffers._lent == 0

    await eventually(all_are_back)


async def test_what_is_going_to_be_synced_is_on_its_way_to_the_disk_before(
    file: SealedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, advise = list[tuple[int, int]](), os.posix_fadvise

    def note(descriptor: int, offset: int, length: int, advice: int) -> None:
        begun.append((offset, length))
        advise(descriptor, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", note)
    for durable in (False, True):
        writer = StagedWriter(file, 0, Buffers(SLOT), durable=durable)
        await take(writer, CONTENT[: 2 * SLOT])
        await writer.finish()

    assert begun == [(0, STRIDE), (STRIDE, STRIDE)]
