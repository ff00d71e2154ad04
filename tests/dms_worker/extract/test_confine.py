"""The confinement, seen from a process that has put it on."""

import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import os, resource, sys
from dms_worker.extract.confine import confine, write_no_file
from dms_worker.extract.limits import MIB, Limits
confine(Limits(memory_bytes=64 * MIB, cpu_seconds=7), os.getppid() + int(sys.argv[1]))
write_no_file()
"""


def confined(program: str, *, wrong_parent: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", PRELUDE + program, str(int(wrong_parent))],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("bytearray(512 * MIB)", "MemoryError"),
        ("[open('/dev/null') for _ in range(99)]", "Too many open files"),
    ],
)
def test_what_a_reader_does_not_need_fails(program: str, error: str) -> None:
    ended = confined(program)

    assert ended.returncode == 1
    assert error in ended.stderr


def test_no_file_can_be_written(tmp_path: Path) -> None:
    ended = confined(f"open({str(tmp_path / 'written')!r}, 'w').write('x' * 100_000)")

    assert "File too large" in ended.stderr
    assert (tmp_path / "written").read_bytes() == b""


def test_no_core_is_dumped_and_processor_time_is_bounded() -> None:
    ended = confined("print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_CPU))")

    assert ended.stdout == "(0, 0) (7, 8)\n"


def test_the_kernel_ends_it_first_where_memory_runs_out() -> None:
    ended = confined("print(open('/proc/self/oom_score_adj').read())")

    assert ended.stdout.strip() == "1000"


def test_it_ends_where_its_parent_has_died_before() -> None:
    ended = confined("print('goes on')", wrong_parent=True)

    assert ended.returncode == 1
    assert ended.stdout == ""


def test_it_dies_with_its_parent() -> None:
    sleeper = PRELUDE + "import time; print('runs', flush=True); time.sleep(60)"
    parent_program = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {sleeper!r}, '0'])"
    with subprocess.Popen([sys.executable, "-c", parent_program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "runs\n"

        parent.kill()

        # The pipe ends when the last process that could write to it has ended.
        parent.communicate(timeout=20)
