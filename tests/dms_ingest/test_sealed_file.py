"""Sealed bytes on disk: any order, several writers at once, a full disk, damage."""

import asyncio
import hashlib
import itertools
import multiprocessing
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dms_ingest.buffers import Buffers
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import BytesLost, SealedFile
from dms_ingest.slots import HEADER, SLOT, STRIDE
from dms_ingest.staged_writing import StagedWriter
from dms_ingest.staging import Staging, StagingFull
from support.staging import take

SESSION = UUID("01990000-0000-7000-8000-000000000000")
KEY = os.urandom(32)
BUFFER = 64 << 10  # bytes


@contextmanager
def opened(folder: Path, session_id: UUID = SESSION, key: bytes = KEY) -> Iterator[SealedFile]:
    file = Staging(folder).open_shared("acme", session_id)
    try:
        yield SealedFile(file, key, session_id)
    finally:
        file.close()


def content_of(folder: Path, start: int, stop: int, session_id: UUID = SESSION) -> bytes:
    buffer = bytearray(stop - start)
    with opened(folder, session_id) as file:
        file.read_into(memoryview(buffer), start)
    return bytes(buffer)


def staged(folder: Path, session_id: UUID = SESSION) -> Path:
    return folder / "acme" / str(session_id)


def writer(file: SealedFile, offset: int) -> StagedWriter:
    return StagedWriter(file, offset, Buffers(size=BUFFER))


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """To the writer a limit on the size of files is what a full disk is: a short write, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_written_where_and_when_reads_as_if_it_were_a_plain_file(
    tmp_path: Path, data: st.DataObject
) -> None:
    size, session_id = 3 * SLOT + 77, uuid4()
    model, known = bytearray(size), bytearray(size)
    near_a_border = st.integers(0, 3).flatmap(lambda n: st.integers(n * SLOT - 3, n * SLOT + 3))
    bound = (near_a_border | st.integers(0, size)).map(lambda n: min(max(n, 0), size))
    with opened(tmp_path, session_id) as file:
        for number in range(1, data.draw(st.integers(2, 9))):
            start, stop = sorted([data.draw(bound), data.draw(bound)])
            chunk = Random(number).randbytes(stop - start)
            assert file.write(memoryview(chunk), start) == len(chunk)
            model[start:stop] = chunk
            known[start:stop] = b"\1" * len(chunk)

    for start, stop in runs(known):
        assert content_of(tmp_path, start, stop, session_id) == model[start:stop]
        if stop < size:
            with pytest.raises(BytesLost):
                content_of(tmp_path, start, stop + 1, session_id)


def runs(known: bytearray) -> list[tuple[int, int]]:
    """Where bytes are known."""
    ends = itertools.accumulate(len(list(group)) for _, group in itertools.groupby(known))
    bounds = list(itertools.pairwise([0, *ends]))
    return [(start, stop) for start, stop in bounds if known[start]]


@given(
    cuts=st.lists(st.integers(0, 3 * SLOT), max_size=4),
    piece_size=st.integers(1000, 200_000),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_chunks_in_any_order_and_again_in_pieces_of_any_size_make_the_file(
    tmp_path: Path, cuts: list[int], piece_size: int, seed: int
) -> None:
    order, session_id = Random(seed), uuid4()
    content = order.randbytes(3 * SLOT)
    chunks = list(itertools.pairwise(sorted({0, len(content), *cuts})))
    plan = order.sample(chunks, len(chunks)) + order.sample(chunks, len(chunks) // 2)

    async def send() -> None:
        for start, end in plan:
            with opened(tmp_path, session_id) as file:
                written = writer(file, start)
                for position in range(start, end, piece_size):
                    await take(written, content[position : min(position + piece_size, end)])
                await written.finish()
            assert (written.taken, written.written, written.full) == (end, end, False)

    asyncio.run(send())

    assert content_of(tmp_path, 0, len(content), session_id) == content


def write_every_fourth(folder: Path, turn: int, content: bytes, piece: int) -> None:
    """Write each fourth piece, one after the other, from a shuffled list."""
    offsets = list(range(turn * piece, len(content), 4 * piece))
    Random(turn).shuffle(offsets)
    with opened(folder) as file:
        for offset in offsets:
            file.write(memoryview(content)[offset : offset + piece], offset)


def test_writers_in_two_processes_and_two_threads_each_lose_no_byte_of_a_slot(tmp_path: Path) -> None:
    content, piece = os.urandom(2 * SLOT), 5003
    child = multiprocessing.get_context("fork").Process(target=two_writers, args=(tmp_path, (0, 1), content, piece))

    child.start()
    two_writers(tmp_path, (2, 3), content, piece)
    child.join(timeout=60)

    assert child.exitcode == 0
    assert content_of(tmp_path, 0, len(content)) == content


def two_writers(folder: Path, turns: tuple[int, int], content: bytes, piece: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write_every_fourth, folder, turn, content, piece) for turn in turns]:
            done.result()


def test_neither_the_bytes_nor_their_key_lie_on_the_disk(tmp_path: Path) -> None:
    content = b"A confidential sentence. " * 40_000

    with opened(tmp_path) as file:
        file.write(memoryview(content)[:500_000], 0)
        file.write(memoryview(content)[499_000:], 499_000)

    stored = staged(tmp_path).read_bytes()
    assert content_of(tmp_path, 0, len(content)) == content
    assert b"confidential" not in stored
    assert KEY not in stored


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_slot_is_named_and_can_be_written_again(tmp_path: Path, number: int) -> None:
    content = os.urandom(2 * SLOT + 50)
    begin, end = number * SLOT, min((number + 1) * SLOT, len(content))
    with opened(tmp_path) as file:
        file.write(memoryview(content), 0)
        flip_bit(staged(tmp_path), number * STRIDE + HEADER + 7)

        lost = file.lost(0, len(content))
        with pytest.raises(BytesLost):
            file.read_into(memoryview(bytearray(1)), begin)
        file.write(memoryview(content)[begin:end], begin)

        assert lost == [(begin, end)]
        assert file.lost(0, len(content)) == []
    assert content_of(tmp_path, 0, len(content)) == content


def flip_bit(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 4]))


def test_new_bytes_of_a_damaged_slot_do_not_vouch_for_the_old_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as file:
        file.write(memoryview(b"old " * 25), 0)
        flip_bit(staged(tmp_path), HEADER)

        file.write(memoryview(b"new"), 50)

    assert content_of(tmp_path, 50, 53) == b"new"
    with pytest.raises(BytesLost):
        content_of(tmp_path, 49, 53)


def test_swapped_slots_and_those_of_another_upload_are_lost(tmp_path: Path) -> None:
    other = uuid4()
    for session_id in (SESSION, other):
        with opened(tmp_path, session_id) as file:
            file.write(memoryview(os.urandom(3 * SLOT)), 0)
    ours, theirs = bytearray(staged(tmp_path).read_bytes()), staged(tmp_path, other).read_bytes()
    first, second, third = (slice(n * STRIDE, (n + 1) * STRIDE) for n in range(3))

    ours[first], ours[second], ours[third] = ours[second], ours[first], theirs[third]
    staged(tmp_path).write_bytes(ours)

    with opened(tmp_path) as file:
        assert file.lost(0, 3 * SLOT) == [(0, 3 * SLOT)]


async def test_a_writer_that_is_cancelled_writes_what_it_took(tmp_path: Path) -> None:
    content = os.urandom(20 * BUFFER + 7)
    passed = asyncio.Event()
    with opened(tmp_path) as file:
        written = writer(file, 0)

        async def send() -> None:
            for position in range(0, len(content), 1000):
                await take(written, content[position : position + 1000])
                if written.taken >= 10 * BUFFER:
                    passed.set()

        sending = asyncio.create_task(send())
        await asyncio.wait([asyncio.create_task(passed.wait())], timeout=15)
        sending.cancel()
        await asyncio.wait([sending])
        await written.finish()

    assert written.written == written.taken >= 10 * BUFFER
    assert content_of(tmp_path, 0, written.written) == content[: written.written]


async def test_a_full_disk_ends_the_writing_with_the_last_slot_that_went_in(tmp_path: Path) -> None:
    content = os.urandom(8 * SLOT)  # more than the writer may hold in memory
    with opened(tmp_path) as file:
        written = writer(file, 0)
        with files_at_most(2 * STRIDE + HEADER + 100_000):
            with pytest.raises(StagingFull):
                await take(written, content)
            await written.finish()

    assert written.full
    assert 2 * SLOT <= written.written < 2 * SLOT + 100_000
    assert content_of(tmp_path, 0, written.written) == content[: written.written]


@pytest.mark.parametrize("room", [0, STRIDE - 1, 2 * STRIDE + 100, 4 * STRIDE])
def test_of_whole_slots_those_count_that_a_full_disk_took(tmp_path: Path, room: int) -> None:
    content, digest = os.urandom(5 * SLOT), RunningDigest()
    with opened(tmp_path) as file:
        with files_at_most(room):
            count = file.write(memoryview(content), 0, digest)
        rest = file.write(memoryview(content)[count:], count, digest)

    assert count == room // STRIDE * SLOT
    assert count + rest == len(content)
    assert content_of(tmp_path, 0, len(content)) == content
    assert digest.covers(len(content))
    assert digest.digest() == hashlib.sha256(content).digest()


def test_a_slot_that_cannot_grow_on_a_full_disk_keeps_what_it_had(tmp_path: Path) -> None:
    content = os.urandom(SLOT - 1)
    with opened(tmp_path) as file:
        file.write(memoryview(content)[:1000], 0)

        with files_at_most(HEADER + 1016 + 500):
            count = file.write(memoryview(content)[1000:], 1000)

    assert count == 0
    assert content_of(tmp_path, 0, 1000) == content[:1000]


def test_no_nonce_seals_twice_also_where_slots_are_sealed_together(tmp_path: Path) -> None:
    slots = 9
    content = memoryview(bytes(slots * SLOT))
    nonces = []
    for _ in range(2):
        with opened(tmp_path) as file:
            file.write(content, 0)
        stored = staged(tmp_path).read_bytes()
        nonces += [stored[number * STRIDE + 4 : number * STRIDE + 16] for number in range(slots)]

    assert len(set(nonces)) == 2 * slots
