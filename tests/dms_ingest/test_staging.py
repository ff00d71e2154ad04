"""The staging folder: whose files they are, who may be in one at the same time, and what a full disk means."""

import errno
import os
import threading
from pathlib import Path
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
