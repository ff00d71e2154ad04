"""The staging folder: whose files they are, who may be in one at the same time, and what a full disk means."""

import errno
import fcntl
import mmap
import os
import threading
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest

from dms_ingest.staging import Busy, Staging, StagingFull
from support.disk import disk_at

SESSION = UUID("01990000-0000-7000-8000-000000000000")


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


def test_writers_share_a_file_and_exclude_who_wants_it_alone(staging: Staging) -> None:
    first, second = (staging.open_shared("acme", SESSION) for _ in range(2))

    with pytest.raises(Busy):
        staging.open_alone("acme", SESSION)
    first.close()
    second.close()
    alone = staging.open_alone("acme", SESSION)
    with pytest.raises(Busy):
        staging.open_shared("acme", SESSION)
    alone.close()

    staging.open_shared("acme", SESSION).close()


def test_bytes_that_one_writer_has_locked_make_another_of_the_same_process_wait(staging: Staging) -> None:
    first, second = (staging.open_shared("acme", SESSION) for _ in range(2))
    entered = threading.Event()

    def enter() -> None:
        with second.locked(20, 10):
            entered.set()

    waiting = threading.Thread(target=enter)
    with first.locked(0, 21):
        waiting.start()
        with second.locked(40, 5):
            pass
        was_in = entered.wait(0.1)
    waiting.join(timeout=10)

    assert not was_in
    assert entered.is_set()
    first.close()
    second.close()


def test_only_the_service_may_read_staged_bytes(staging: Staging, tmp_path: Path) -> None:
    staging.open_shared("acme", SESSION).close()

    folder = tmp_path / "staging" / "acme"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / str(SESSION)).stat().st_mode & 0o777 == 0o600


def test_a_removed_file_is_gone_however_often_it_is_removed(staging: Staging, tmp_path: Path) -> None:
    staging.open_shared("acme", SESSION).close()
    (tmp_path / "staging" / "acme" / "lost+found").mkdir()
    assert staging.staged("acme") == [SESSION]

    staging.remove("acme", SESSION)
    staging.remove("acme", SESSION)

    assert staging.staged("acme") == staging.staged("nobody") == []


def test_a_full_disk_does_not_make_the_service_unready_and_a_folder_that_is_gone_does(tmp_path: Path) -> None:
    with disk_at(tmp_path / "small") as disk:
        staging = Staging(tmp_path / "small")
        staging.check()
        disk.resize(4096)
        (tmp_path / "small" / "filler").write_bytes(bytes(4096))

        staging.check()

    gone = Staging(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError):
        gone.check()


@pytest.mark.parametrize(
    ("code", "raised"), [(errno.ENOSPC, StagingFull), (errno.EDQUOT, StagingFull), (errno.EIO, OSError)]
)
def test_a_disk_without_room_for_another_file_is_full_and_a_broken_one_is_not(
    staging: Staging, monkeypatch: pytest.MonkeyPatch, code: int, raised: type[Exception]
) -> None:
    def no_room(*_arguments: object, **_options: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", no_room)

    with pytest.raises(raised) as caught:
        staging.open_shared("acme", SESSION)

    assert type(caught.value) is raised


def pages(content: bytes) -> memoryview:
    """The content in memory that begins at a page."""
    memory = mmap.mmap(-1, len(content))
    memory.write(content)
    return memoryview(memory)


def test_whole_pages_and_parts_of_pages_are_seen_by_each_other(staging: Staging) -> None:
    file, content = staging.open_shared("acme", SESSION), os.urandom(8 * 4096)

    file.write_at(memoryview(content)[:5000], 0)
    file.write_pages(pages(content[4096:]), 4096)
    file.write_at(memoryview(b"part"), 9000)
    buffer = pages(bytes(len(content)))
    count = file.read_pages(buffer, 0)
    file.close()

    assert count == len(content)
    assert bytes(buffer) == content[:9000] + b"part" + content[9004:]


def test_reading_whole_pages_ends_with_the_file(staging: Staging) -> None:
    file = staging.open_shared("acme", SESSION)
    file.write_at(memoryview(b"x" * 5000), 0)

    count = file.read_pages(pages(bytes(4 * 4096)), 0)
    beyond = file.read_pages(pages(bytes(4096)), 8192)
    file.close()

    assert (count, beyond) == (5000, 0)


@pytest.mark.parametrize("refused", ["open", "pwrite"])
def test_a_file_system_that_has_no_way_past_the_page_cache_is_written_through_it(
    staging: Staging, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    content, asked, direct = os.urandom(4 * 4096), list[str](), set[int]()
    real_open, real_pwrite = os.open, os.pwrite

    def open_file(path: str, flags: int, *rest: int) -> int:
        if not flags & os.O_DIRECT:
            return real_open(path, flags, *rest)
        if refused == "open":
            asked.append("open")
            raise OSError(errno.EINVAL, "not here")
        direct.add(descriptor := real_open(path, flags, *rest))
        return descriptor

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        if descriptor in direct:
            asked.append("pwrite")
            raise OSError(errno.EINVAL, "not here")
        return real_pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "pwrite", pwrite)
    file = staging.open_shared("acme", SESSION)

    counts = [file.write_pages(pages(content), 0), file.write_pages(pages(content), 4 * 4096)]
    buffer = pages(bytes(8 * 4096))
    file.read_pages(buffer, 0)
    file.close()

    assert asked == (["open"] if refused == "open" else ["pwrite", "pwrite"])
    assert counts == [len(content), len(content)]
    assert bytes(buffer) == content * 2


def test_a_disk_that_fails_is_told_from_a_full_one(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    file = staging.open_shared("acme", SESSION)

    def fail(_descriptor: int, _data: memoryview, _offset: int) -> int:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "pwrite", fail)

    with pytest.raises(OSError, match="broken"):
        file.write_pages(pages(bytes(4096)), 0)
    file.close()


@pytest.mark.parametrize(
    ("code", "raised"), [(errno.ENOSPC, StagingFull), (errno.EDQUOT, StagingFull), (errno.EIO, OSError)]
)
def test_a_disk_that_is_found_full_only_when_it_must_keep_what_it_took_is_full(
    staging: Staging, monkeypatch: pytest.MonkeyPatch, code: int, raised: type[Exception]
) -> None:
    def no_room(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    file = staging.open_shared("acme", SESSION)
    monkeypatch.setattr(os, "fdatasync", no_room)

    with pytest.raises(raised) as caught:
        file.sync()

    assert type(caught.value) is raised
    file.close()


def test_what_is_to_survive_a_power_cut_is_brought_to_the_disk(staging: Staging) -> None:
    file = staging.open_shared("acme", SESSION)

    with patch.object(os, "fdatasync", wraps=os.fdatasync) as brought:
        file.sync()

    assert brought.call_count == 1
    file.close()


def test_a_closed_file_leaves_no_descriptor_open(staging: Staging) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is enough
    file = staging.open_shared("acme", SESSION)
    file.write_pages(pages(bytes(4096)), 0)

    file.close()

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_file_that_is_not_there_is_not_made_for_who_only_looks(staging: Staging, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        staging.open_alone("acme", SESSION, make=False)

    assert not (tmp_path / "staging" / "acme").exists()


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, errno.EMFILE, errno.EOPNOTSUPP])
def test_a_file_that_cannot_be_opened_past_the_page_cache_is_written_all_the_same(
    staging: Staging, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file, content, real_open = staging.open_shared("acme", SESSION), os.urandom(4096), os.open

    def open_file(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(code, os.strerror(code))
        return real_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", open_file)
    buffer = pages(bytes(4096))

    counts = file.write_pages(pages(content), 0), file.read_pages(buffer, 0)
    file.close()

    assert counts == (4096, 4096)
    assert bytes(buffer) == content


def test_a_file_system_that_reads_nothing_past_the_page_cache_is_read_through_it(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, content, real_read = staging.open_shared("acme", SESSION), os.urandom(2 * 4096), os.preadv
    file.write_pages(pages(content), 0)
    refused = list[int]()

    def read(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(offset)
            raise OSError(errno.EINVAL, "not here")
        return real_read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", read)
    buffer = pages(bytes(2 * 4096))

    count = file.read_pages(buffer, 0)
    file.close()

    assert (count, refused) == (len(content), [0])
    assert bytes(buffer) == content


def test_what_a_write_past_the_page_cache_leaves_over_goes_where_it_belongs(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, content, real_write = staging.open_shared("acme", SESSION), os.urandom(4 * 4096), os.pwrite

    def write(descriptor: int, data: memoryview, offset: int) -> int:
        direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
        return real_write(descriptor, data[:4096] if direct else data, offset)  # as at the end of a disk

    monkeypatch.setattr(os, "pwrite", write)

    count = file.write_pages(pages(content), 8192)
    buffer = bytearray(len(content))
    file.read_at(memoryview(buffer), 8192)
    file.close()

    assert count == len(content)
    assert buffer == content
