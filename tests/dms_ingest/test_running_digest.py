"""The digest of what comes, and the proof that it is the digest of what lies on disk."""

import hashlib
import os
import threading
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dms_ingest.running_digest import RunningDigest, RunningDigests, Trail
from dms_ingest.sealed_file import SealedFile
from dms_ingest.slots import SLOT
from dms_ingest.staging import StagedFile, Staging

SESSION = UUID("01990000-0000-7000-8000-000000000000")
KEY = os.urandom(32)
CONTENT = os.urandom(3 * SLOT + 1000)


@pytest.fixture
def file(tmp_path: Path) -> StagedFile:
    return Staging(tmp_path).open_shared("acme", SESSION)


def send(file: StagedFile, content: bytes, offset: int, digest: RunningDigest | None, key: bytes = KEY) -> None:
    SealedFile(file, key, SESSION).write(memoryview(content), offset, digest)


def trail_on_disk(file: StagedFile) -> bytes:
    trail = Trail()
    SealedFile(file, KEY, SESSION).read_into(memoryview(bytearray(len(CONTENT))), 0, trail)
    return trail.digest()


@pytest.mark.parametrize("piece", [len(CONTENT), SLOT, 100_000, 2 * SLOT - 1])
def test_bytes_that_come_in_order_have_their_digest_and_the_trail_of_the_disk(file: StagedFile, piece: int) -> None:
    digest = RunningDigest()

    for offset in range(0, len(CONTENT), piece):
        send(file, CONTENT[offset : offset + piece], offset, digest)

    assert digest.covers(len(CONTENT))
    assert digest.digest() == hashlib.sha256(CONTENT).digest()
    assert digest.trail() == trail_on_disk(file)


@pytest.mark.parametrize("offset", [0, SLOT + 5, len(CONTENT) - 1])
def test_a_byte_that_somebody_else_writes_later_leaves_another_trail(file: StagedFile, offset: int) -> None:
    digest = RunningDigest()
    send(file, CONTENT, 0, digest)

    send(file, CONTENT[offset : offset + 1], offset, None)

    assert digest.trail() != trail_on_disk(file)


def test_a_byte_that_somebody_else_writes_into_a_slot_that_still_grows_is_noticed(file: StagedFile) -> None:
    digest = RunningDigest()
    send(file, CONTENT[:1000], 0, digest)

    send(file, b"x", 0, None)
    send(file, CONTENT[1000:], 1000, digest)

    assert not digest.covers(len(CONTENT))


def test_an_older_state_of_a_slot_that_is_put_back_leaves_another_trail(file: StagedFile, tmp_path: Path) -> None:
    staged = tmp_path / "acme" / str(SESSION)
    send(file, os.urandom(len(CONTENT)), 0, None)
    old = staged.read_bytes()
    digest = RunningDigest()
    send(file, CONTENT, 0, digest)

    staged.write_bytes(old)

    assert digest.trail() != trail_on_disk(file)


def breaks_after(digests: RunningDigests, count: int) -> None:
    """A line that brings so many bytes and breaks."""
    with digests.following(SESSION, 0) as digest:
        assert digest is not None
        digest.position = count
        raise ConnectionResetError


def test_the_next_chunk_goes_on_with_the_digest_also_after_a_broken_line() -> None:
    digests = RunningDigests()
    with pytest.raises(ConnectionResetError):
        breaks_after(digests, 5)

    with digests.following(SESSION, 5) as digest:
        pass

    assert digest is not None
    assert digests.whole(SESSION, 5) is digest
    assert digests.whole(SESSION, 6) is None


def test_bytes_out_of_order_have_no_digest_until_all_come_again() -> None:
    digests = RunningDigests()
    with digests.following(SESSION, 0) as digest:
        assert digest is not None
        digest.position = 5

    with digests.following(SESSION, 7) as beyond:
        pass
    with digests.following(SESSION, 5) as late:
        pass
    with digests.following(SESSION, 0) as again:
        pass

    assert (beyond, late) == (None, None)
    assert again is not None
    assert again.position == 0


def test_of_two_lines_at_once_only_one_has_the_digest() -> None:
    digests = RunningDigests()

    with digests.following(SESSION, 0) as first:
        assert first is not None
        first.position = 5
        with digests.following(SESSION, 5) as second:
            assert second is None


def test_of_too_many_sessions_the_longest_untouched_are_forgotten() -> None:
    digests = RunningDigests(most=2)
    sessions = [uuid4() for _ in range(3)]

    for session_id in sessions:
        with digests.following(session_id, 0):
            pass
    digests.forget(sessions[1])

    assert [digests.whole(session_id, 0) is not None for session_id in sessions] == [False, False, True]


def test_the_digest_waits_for_bytes_that_are_still_being_hashed_and_then_gives_their_memory_back() -> None:
    digest, hashing, given_back = RunningDigest(), threading.Event(), list[bytes]()
    digest.then(lambda: hashing.wait(15))
    buffer = bytearray(b"bytes that came")

    digest.follow(memoryview(buffer), [])
    digest.then(lambda: given_back.append(bytes(buffer)))
    position, before = digest.position, list(given_back)
    hashing.set()

    assert digest.digest() == hashlib.sha256(b"bytes that came").digest()
    assert (position, before, given_back) == (len(buffer), [], [b"bytes that came"])
