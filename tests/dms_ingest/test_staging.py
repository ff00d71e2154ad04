"""The staging folder, and writing a stream into it."""

import asyncio
import itertools
import os
import resource
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dms_ingest.receiving import StagedWriter, StagingFull
from dms_ingest.staging import Busy, StagedFile, Staging

SESSION = UUID("01990000-0000-7000-8000-000000000000")
BUFFER = 64  # bytes, so that a few pieces fill several


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


def writer(file: StagedFile, offset: int) -> StagedWriter:
    return StagedWriter(file, offset, (memoryview(bytearray(BUFFER)), memoryview(bytearray(BUFFER))))


def content_of(staging: Staging, session_id: UUID = SESSION) -> bytes:
    file = staging.open_shared("acme", session_id)
    buffer = bytearray(file.size())
    assert file.read_into(memoryview(buffer), 0) == len(buffer)
    file.close()
    return bytes(buffer)


@given(
    content=st.binary(min_size=1, max_size=1000),
    data=st.data(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_chunks_in_any_order_and_again_in_pieces_of_any_size_make_the_file(
    tmp_path: Path, content: bytes, data: st.DataObject
) -> None:
    staging, session_id = Staging(tmp_path), uuid4()
    cuts = sorted({0, len(content), *data.draw(st.lists(st.integers(0, len(content)), max_size=6))})
    chunks = list(itertools.pairwise(cuts))
    again = data.draw(st.lists(st.sampled_from(chunks), max_size=3))
    plan = data.draw(st.permutations(chunks + again))
    piece_size = data.draw(st.integers(1, 200))

    async def send() -> None:
        for start, end in plan:
            file = staging.open_shared("acme", session_id)
            written = writer(file, start)
            for position in range(start, end, piece_size):
                await written.take(memoryview(content)[position : min(position + piece_size, end)])
            await written.finish()
            file.close()
            assert (written.taken, written.written, written.full) == (end, end, False)

    asyncio.run(send())

    assert content_of(staging, session_id) == content


async def test_a_writer_that_is_cancelled_writes_what_it_took(staging: Staging) -> None:
    file = staging.open_shared("acme", SESSION)
    written = writer(file, 0)
    content = os.urandom(100 * BUFFER + 7)
    passed = asyncio.Event()

    async def send() -> None:
        for position in range(0, len(content), 10):
            await written.take(memoryview(content)[position : position + 10])
            if written.taken >= 20 * BUFFER:
                passed.set()

    sending = asyncio.create_task(send())
    await asyncio.wait([asyncio.create_task(passed.wait())], timeout=5)
    sending.cancel()
    await asyncio.wait([sending])
    await written.finish()
    file.close()

    assert written.written == written.taken >= 20 * BUFFER
    assert content_of(staging) == content[: written.written]


async def test_a_full_disk_ends_the_writing_at_the_last_byte_that_went_in(staging: Staging) -> None:
    file = staging.open_shared("acme", SESSION)
    written = writer(file, 0)
    limit = 3 * BUFFER + 5
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(StagingFull):
            await written.take(memoryview(b"x" * (10 * BUFFER)))
        await written.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        file.close()

    assert written.full
    assert written.written == limit == len(content_of(staging))


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
