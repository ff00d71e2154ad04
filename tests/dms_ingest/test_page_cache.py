"""Which staged bytes wait in the page cache: the first of each upload, and no more of all than there is room for."""

import os
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch
from uuid import UUID

import pytest
from aiohttp import web

from dms_ingest import page_cache, resources
from dms_ingest.keys import SETTINGS, STAGING
from dms_ingest.page_cache import PageCache, share_of_memory
from dms_ingest.running_digest import RunningDigest
from dms_ingest.sealed_file import SealedFile
from dms_ingest.settings import Settings
from dms_ingest.slots import SLOT, STRIDE
from dms_ingest.staging import StagedFile, Staging
from nexarch.http import CHECKS

ONE, OTHER, THIRD = UUID(int=1), UUID(int=2), UUID(int=3)
MIB = 1 << 20


class Clock:
    """The time, which stands still unless it is set forward."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def test_the_first_bytes_of_each_upload_go_in_while_there_is_room() -> None:
    cache = PageCache(10 * MIB)

    taken = [
        cache.take(ONE, 0, 4 * MIB),
        cache.take(OTHER, 0, 4 * MIB),
        cache.take(ONE, 4 * MIB, 7 * MIB),
        cache.take(OTHER, 4 * MIB, 6 * MIB),
    ]

    assert taken == [True, True, False, True]
    assert (cache.holds(ONE, 4 * MIB), cache.holds(ONE, 4 * MIB + 1)) == (True, False)
    assert (cache.holds(OTHER, 6 * MIB), cache.holds(THIRD, 1)) == (True, False)


def test_after_a_part_of_a_slot_that_was_written_by_itself_it_goes_on_and_after_more_it_does_not() -> None:
    cache = PageCache(10 * MIB)
    cache.take(ONE, 0, STRIDE)

    assert cache.take(ONE, 2 * STRIDE, 3 * STRIDE)
    assert cache.take(ONE, 3 * STRIDE + MIB, 4 * STRIDE + MIB)
    assert not cache.take(ONE, 4 * STRIDE + 2 * MIB + 1, 5 * STRIDE + 2 * MIB)


def test_an_upload_that_is_over_makes_room_for_as_much_as_it_took(clock: Clock) -> None:
    cache = PageCache(4 * MIB)
    cache.take(ONE, 0, 3 * MIB)

    cache.forget(ONE)
    cache.forget(OTHER)
    clock.now += 61

    assert not cache.holds(ONE, 1)
    assert cache.take(OTHER, 0, 4 * MIB)
    assert not cache.take(OTHER, 4 * MIB, 4 * MIB + 1)


def test_what_was_written_a_minute_ago_makes_room_however_often_its_upload_is_touched(clock: Clock) -> None:
    cache = PageCache(4 * MIB)
    cache.take(ONE, 0, 3 * MIB)
    clock.now += 59
    cache.take(ONE, 0, MIB)
    too_early = cache.take(OTHER, 0, MIB)
    clock.now += 1

    assert not too_early
    assert cache.take(OTHER, 0, 3 * MIB)
    assert not cache.take(OTHER, 3 * MIB, 4 * MIB)
    assert cache.holds(ONE, 3 * MIB)
    clock.now += 60
    assert cache.take(THIRD, 0, 4 * MIB)
    assert not cache.holds(ONE, 1)


def test_what_is_kept_in_mind_does_not_grow_with_the_uploads_that_are_over(clock: Clock) -> None:
    cache = PageCache(1 << 40)

    for number in range(10_000):
        cache.take(UUID(int=number), 0, STRIDE)
        cache.forget(UUID(int=number))
        clock.now += 0.001
    of_others = remembered(cache)
    for place in range(10_000):
        cache.take(ONE, place * STRIDE, (place + 1) * STRIDE)
        clock.now += 0.001
    of_one = remembered(cache)

    assert of_others <= 1
    assert of_one <= 1 + 12


def remembered(cache: PageCache) -> int:
    """How many times of writing are kept."""
    return len(cache._waiting)


@pytest.mark.parametrize("seed", range(20))
def test_no_more_waits_than_may_whatever_becomes_of_the_uploads(clock: Clock, seed: int) -> None:
    random, most = Random(seed), 20 * MIB
    cache = PageCache(most)
    waiting: list[tuple[float, UUID, int]] = []
    for _ in range(500):
        session_id, start, length = (
            random.choice([ONE, OTHER, THIRD]),
            random.randrange(8 * MIB),
            random.randrange(4 * MIB),
        )
        match random.randrange(8):
            case 0:
                cache.forget(session_id)
                waiting = [each for each in waiting if each[1] != session_id]
            case 1:
                clock.now += random.choice([1, 30, 61])
            case _:
                if cache.take(session_id, start, start + length):
                    waiting.append((clock.now, session_id, length))
        waiting = [each for each in waiting if each[0] > clock.now - 60]
        assert sum(length for _, _, length in waiting) <= most
    for session_id in (ONE, OTHER, THIRD):
        cache.forget(session_id)

    assert cache.take(ONE, 0, most)
    assert not cache.take(OTHER, 0, 1)


def memory(
    folder: Path, available_kb: int, cgroup: str, limits: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine with so much memory available, and the control groups of this process with their limits."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available_kb} kB\n")
    (folder / "proc/self/cgroup").write_text(cgroup)
    for path, limit in limits.items():
        file = folder / "cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    monkeypatch.setattr(page_cache, "_PROC", folder / "proc")
    monkeypatch.setattr(page_cache, "_CGROUPS", folder / "cgroup")


@pytest.mark.parametrize(
    ("cgroup", "limits", "mib"),
    [
        ("0::/\n", {}, 256),
        ("0::/\n", {"memory.max": "max\n"}, 256),
        ("0::/\n", {"memory.max": "536870912\n"}, 32),
        ("0::/\n", {"memory.max": "9223372036854771712\n"}, 256),
        ("0::/system.slice/ingest.service\n", {"system.slice/ingest.service/memory.max": "536870912\n"}, 32),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1073741824\n", "memory.max": "2147483648\n"}, 64),
        ("3:cpu:/x\n7:cpuset,memory:/docker/1\n0::/\n", {"memory/memory.limit_in_bytes": "536870912\n"}, 32),
        ("7:memory:/a\n", {"memory/a/memory.limit_in_bytes": "536870912\n"}, 32),
    ],
)
def test_the_share_is_of_what_is_available_here_or_to_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, limits: dict[str, str], mib: int
) -> None:
    memory(tmp_path, 4 << 20, cgroup, limits, monkeypatch)

    assert share_of_memory() == mib * MIB


def test_where_nothing_tells_of_memory_there_is_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_PROC", tmp_path)

    assert share_of_memory() == 0


def test_this_machine_has_a_share() -> None:
    assert 0 < share_of_memory() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 16


@pytest.mark.parametrize(("setting", "cached"), [(None, True), (0, False)])
async def test_the_service_uses_its_share_unless_it_is_told_otherwise(
    tmp_path: Path, setting: int | None, cached: bool
) -> None:
    app = web.Application()
    app[SETTINGS] = Settings.model_construct(staging_dir=tmp_path, staging_cache_bytes=setting)
    app[CHECKS] = {}

    async with asynccontextmanager(resources.staging)(app):
        file = app[STAGING].open_shared("acme", ONE)
        went_past = opened_past_the_cache(file)

    assert went_past is not cached


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


def opened_past_the_cache(file: StagedFile) -> bool:
    """Whether a whole slot that is written to the file takes the way past the cache, or tries to."""
    with patch.object(os, "open", wraps=os.open) as opened:
        SealedFile(file, bytes(32), ONE).write(memoryview(bytes(SLOT)), 0)
    file.close()
    return any(call.args[1] & os.O_DIRECT for call in opened.call_args_list)


def test_only_what_finds_no_room_goes_past_the_cache_and_a_removed_upload_makes_room(tmp_path: Path) -> None:
    staging = Staging(tmp_path, STRIDE)

    first = opened_past_the_cache(staging.open_shared("acme", ONE))
    second = opened_past_the_cache(staging.open_shared("acme", OTHER))
    staging.remove("acme", ONE)
    third = opened_past_the_cache(staging.open_shared("acme", THIRD))

    assert (first, second, third) == (False, True, False)


def test_what_went_through_the_cache_is_read_through_it_and_the_rest_past_it(tmp_path: Path) -> None:
    staging = Staging(tmp_path, 2 * STRIDE)
    for offset in range(0, 4 * SLOT, SLOT):
        file = staging.open_shared("acme", ONE)
        SealedFile(file, bytes(32), ONE).write(memoryview(bytes(SLOT)), offset)
        file.close()
    ways = []
    for offset, count in ((0, 2), (1, 2), (2, 2)):
        file = staging.open_shared("acme", ONE)
        with patch.object(os, "open", wraps=os.open) as opened:
            SealedFile(file, bytes(32), ONE).read_into(memoryview(bytearray(count * SLOT)), offset * SLOT)
        file.close()
        ways.append(bool(opened.call_args_list))

    assert ways == [False, True, True]
