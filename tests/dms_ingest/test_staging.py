"""The staging folder: whose files they are, and who may be in one at the same time."""

import threading
from pathlib import Path
from uuid import UUID

import pytest

from dms_ingest.staging import Busy, Staging

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
