"""Which staged bytes wait in the page cache: the first of each upload, and no more of all than there is room for."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from dms_ingest import page_cache
from dms_ingest.page_cache import PageCache, share_of_memory
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import SealedFile
from dms_ingest.slots import SLOT, STRIDE
from dms_ingest.staging import Staging

ONE, OTHER = UUID(int=1), UUID(int=2)
MIB = 1 << 20


def test_the_first_bytes_of_each_upload_are_taken_while_there_is_room() -> None:
    cache = PageCache(10 * MIB)

    taken = [
        cache.admits(ONE, 0, 4 * MIB),
        cache.admits(OTHER, 0, 4 * MIB),
        cache.admits(ONE, 4 * MIB, 7 * MIB),
        cache.admits(OTHER, 4 * MIB, 6 * MIB),
    ]

    assert taken == [True, True, False, True]
    assert (cache.holds(ONE, 4 * MIB), cache.holds(ONE, 5 * MIB)) == (True, False)
    assert (cache.holds(OTHER, 6 * MIB), cache.holds(UUID(int=3), 1)) == (True, False)


def test_what_is_written_again_takes_no_more_room() -> None:
    cache = PageCache(4 * MIB)

    taken = [cache.admits(ONE, 0, 4 * MIB) for _ in range(3)]

    assert taken == [True] * 3


def test_after_a_part_of_a_slot_that_was_written_by_itself_it_goes_on_and_after_more_it_does_not() -> None:
    cache = PageCache(10 * MIB)
    cache.admits(ONE, 0, STRIDE)

    assert cache.admits(ONE, 2 * STRIDE, 3 * STRIDE)
    assert not cache.admits(ONE, 3 * STRIDE + 2 * MIB, 4 * STRIDE + 2 * MIB)


def test_an_upload_that_is_over_makes_room() -> None:
    cache = PageCache(4 * MIB)
    cache.admits(ONE, 0, 4 * MIB)

    cache.forget(ONE)
    cache.forget(OTHER)

    assert not cache.holds(ONE, 1)
    assert cache.admits(OTHER, 0, 4 * MIB)
    assert not cache.admits(OTHER, 4 * MIB, 5 * MIB)


def test_what_the_kernel_has_written_long_ago_makes_room_and_what_was_touched_since_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    cache = PageCache(4 * MIB)
    cache.admits(ONE, 0, 2 * MIB)
    cache.admits(OTHER, 0, MIB)
    now += 50
    cache.admits(ONE, 2 * MIB, 3 * MIB)
    now += 20

    third = cache.admits(UUID(int=3), 0, 2 * MIB)

    assert not third
    assert not cache.holds(OTHER, MIB)
    assert cache.holds(ONE, 3 * MIB)
    assert cache.admits(UUID(int=3), 0, MIB)


@pytest.mark.parametrize("limit", ["536870912\n", "max\n", None])
def test_the_share_is_of_the_containers_memory_where_that_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None
) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit)
    monkeypatch.setattr(page_cache, "_CGROUP_LIMIT", file)

    assert share_of_memory() == (min(machine, 512 * MIB) if limit == "536870912\n" else machine) // 16


@pytest.mark.parametrize("room", [0, 3 * STRIDE, 1 << 30])
def test_whatever_of_an_upload_waits_in_the_cache_every_process_reads_the_same_bytes(tmp_path: Path, room: int) -> None:
    content = os.urandom(9 * SLOT + 1000)
    here, elsewhere = Staging(tmp_path, room), Staging(tmp_path)
    key = os.urandom(32)
    file, other = here.open_shared("acme", ONE), elsewhere.open_shared("acme", ONE)
    mine, theirs = SealedFile(file, key, ONE), SealedFile(other, key, ONE)
    chunk = 2 * SLOT + 700  # ends within a slot
    for offset in range(0, len(content), chunk):
        part = memoryview(content)[offset : offset + chunk]
        (mine if offset // chunk % 2 else theirs).write(part, offset)
    mine.write(memoryview(content)[:SLOT], 0, RunningDigest())

    read = []
    for reader in (mine, theirs):
        buffer = bytearray(len(content))
        reader.read_into(memoryview(buffer), 0)
        read.append(bytes(buffer) == content)
    file.close()
    other.close()

    assert read == [True, True]


def test_only_what_finds_no_room_goes_past_the_cache_and_a_removed_upload_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past: list[UUID] = []
    real_open = os.open

    def open_file(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            past.append(session_id)
        return real_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", open_file)
    staging = Staging(tmp_path, STRIDE)
    for session_id in (ONE, OTHER, UUID(int=3)):
        file = staging.open_shared("acme", session_id)
        sealed = SealedFile(file, bytes(32), session_id)
        sealed.write(memoryview(bytes(SLOT)), 0)
        sealed.read_into(memoryview(bytearray(SLOT)), 0)
        file.close()
        if session_id == OTHER:
            staging.remove("acme", ONE)

    assert past == [OTHER]
