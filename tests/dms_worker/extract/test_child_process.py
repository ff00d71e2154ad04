"""Whatever becomes of the child that reads a file, or whoever takes it over: no process and no harm is left."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dms_worker.extract.errors import (
    ExtractorUnavailable,
    ParserCrashed,
    TimeLimitExceeded,
    Unreadable,
)
from dms_worker.extract.limits import MIB, Limits
from dms_worker.extract.runner import extract_text
from support.extracting import LIMITS, PDF, extract, letter, running_children
from support.waiting import eventually


async def test_a_cancelled_extraction_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes("ä".encode() * 16 * MIB)
    running = asyncio.create_task(extract_text(tmp_path / "upload", "text/plain", Limits(characters=64 * MIB)))
    await child_of_ours()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert running_children() == []


async def child_of_ours() -> int:
    """The id of the child process, as soon as it runs the extraction."""

    async def a_child_runs() -> bool:
        return running_children() != []

    await eventually(a_child_runs, every_s=0.002)
    return running_children()[0]


async def test_a_cancellation_at_any_moment_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(letter("text"))
    for delay_ms in range(0, 100, 5):
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_ms / 1000):
                await extract_text(tmp_path / "upload", PDF, LIMITS)

        assert running_children() == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
async def test_a_child_killed_by_a_signal_that_is_not_ours_has_crashed(tmp_path: Path, number: int) -> None:
    (tmp_path / "upload").write_bytes("ä".encode() * 16 * MIB)
    running = asyncio.create_task(extract_text(tmp_path / "upload", "text/plain", Limits(characters=64 * MIB)))

    os.kill(await child_of_ours(), number)

    with pytest.raises(ParserCrashed):
        await running


def instead_of_python(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """Let `program`, a shell script, run where the child would."""
    script = folder / "program"
    script.write_text(f"#!/bin/bash\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


async def test_the_child_inherits_no_secret_and_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMS_WORKER_CLIENT_SECRET", "hush")
    seen = tmp_path / "seen"
    instead_of_python(
        monkeypatch, tmp_path, f"{{ cat /proc/self/environ; ls /proc/$$/fd; ls -l /proc/$$/fd/; pwd; }} > {seen}"
    )

    with (tmp_path / "other").open("wb") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        with pytest.raises(ParserCrashed):
            await extract(tmp_path, b"text", "text/plain")

    told = seen.read_text()
    assert f"0 -> {tmp_path / 'upload'}" in told
    assert "2 -> /dev/null" in told
    assert "hush" not in told
    assert str(tmp_path / "other") not in told
    assert "socket:" not in told
    assert told.endswith("\n/\n")


async def test_what_cannot_start_is_worth_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))

    with pytest.raises(ExtractorUnavailable) as caught:
        await extract(tmp_path, b"text", "text/plain")

    assert not isinstance(caught.value, Unreadable)


async def test_a_child_that_ends_before_it_reads_is_worth_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(ExtractorUnavailable):
        await extract(tmp_path, b"text", "text/plain")


@pytest.mark.parametrize(
    "program",
    [
        "yes",  # floods the pipe
        'echo \'{"pages": [1], "page_count": 1, "truncated": false}\'',
        'echo \'{"pages": ["\\u0000"], "page_count": 1, "truncated": false}\'',
        'echo \'{"pages": ["\\ud800"], "page_count": 1, "truncated": false}\'',
        'echo \'{"unreadable": "no-such-code"}\'',
        "printf '[%.0s' $(seq 5000)",
        "true",
    ],
)
async def test_a_child_that_was_taken_over_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    instead_of_python(monkeypatch, tmp_path, program)

    with pytest.raises(ParserCrashed):
        await extract(tmp_path, b"text", "text/plain", Limits(characters=1000))

    assert running_children() == []


async def test_a_child_that_closes_its_answer_and_stays_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_python(monkeypatch, tmp_path, "exec >&-\nsleep 600")

    with pytest.raises(TimeLimitExceeded):
        await extract(tmp_path, b"text", "text/plain", Limits(wall_seconds=0.2))

    assert running_children() == []
