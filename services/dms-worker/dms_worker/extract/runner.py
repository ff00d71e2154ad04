"""Takes the text of a file in a fresh child process, and ends that process whatever happens.

What the child may do is limited twice: by itself before it reads (`confine`), and from here by the clock, a
watch on its memory, a bound on its answer, and an environment that holds nothing.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from dms_worker.extract.errors import (
    UNREADABLE,
    ExtractorUnavailable,
    MemoryLimitExceeded,
    ParserCrashed,
    TimeLimitExceeded,
)
from dms_worker.extract.kinds import declared_kind
from dms_worker.extract.limits import MIB, Limits

_WATCH_INTERVAL_S = 0.05
_READ_BYTES = 256 * 1024
# All that the child is told. Without these two glibc gives memory back to the kernel after every page of a PDF and
# takes it again for the next, a third of the whole time (mallopt(3)).
_ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(64 * MIB), "MALLOC_MMAP_THRESHOLD_": str(32 * MIB)}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class ExtractedText:
    """The cleaned text of a file; a DOCX or plain text file is one page and has no page count."""

    pages: list[Annotated[str, Field(pattern=r"^[^\x00]*$")]]
    page_count: int | None = Field(ge=0)  # of the file, also where `pages` was cut short
    truncated: bool  # at `Limits.pages` or `Limits.characters`


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class _Refusal:
    unreadable: str


_ANSWER: TypeAdapter[ExtractedText | _Refusal] = TypeAdapter(ExtractedText | _Refusal)


async def extract_text(file: Path, mime_type: str, limits: Limits) -> ExtractedText:
    """The text of `file`, read by the type that was declared, or by its bytes where that says nothing.

    Raises a subclass of Unreadable where the file is at fault (permanent), ExtractorUnavailable where we are
    (worth a retry). Cancelling kills the child and waits for its end.
    """
    kind = declared_kind(mime_type)
    async with _pipe() as (answers, write_end):
        process = await _start(file, kind.value, limits, write_end)
        try:
            async with asyncio.timeout(limits.wall_seconds):
                answer = await _answer(answers, process.pid, limits)
                status = await process.wait()
        except TimeoutError as error:
            raise TimeLimitExceeded from error
        finally:
            await _end(process)
    return _result(answer, status)


@asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, FileIO]]:
    """A pipe of our own: with one of asyncio's, `wait()` would last until every byte of it is read."""
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb", buffering=0) as read_end, os.fdopen(write_fd, "wb", buffering=0) as write_end:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), read_end)
        try:
            yield reader, write_end
        finally:
            transport.close()


async def _start(file: Path, kind: str, limits: Limits, write_end: FileIO) -> asyncio.subprocess.Process:
    """The running child. Closes our copy of `write_end`, so that the answer ends with the child."""
    try:
        with write_end, file.open("rb") as source:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                "dms_worker.extract.child",
                kind,
                str(os.getpid()),
                json.dumps(asdict(limits)),
                stdin=source,
                stdout=write_end,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )
    except OSError as error:
        raise ExtractorUnavailable(f"The text extraction cannot start: {error.strerror}.") from error


async def _answer(answers: asyncio.StreamReader, pid: int, limits: Limits) -> bytes:
    """All that the child writes, while its memory is watched."""
    # Four bytes at most for a character: an escape doubles only those of one byte.
    most = 4 * limits.characters + 16 * limits.pages + 1024
    reading = asyncio.create_task(_read(answers, most))
    try:
        while not (await asyncio.wait({reading}, timeout=_WATCH_INTERVAL_S))[0]:
            if _resident_bytes(pid) > limits.memory_bytes:
                raise MemoryLimitExceeded
        return reading.result()
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    answer = bytearray()
    while piece := await stream.read(_READ_BYTES):
        answer += piece
        if len(answer) > most:
            raise ParserCrashed
    return bytes(answer)


def _resident_bytes(pid: int) -> int:
    """Memory of the process in RAM; 0 when it has ended, or where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[1]) * _PAGE_BYTES


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs and wait for its end, so that neither a process nor a zombie is left."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _result(answer: bytes, status: int) -> ExtractedText:
    if status == -signal.SIGXCPU:
        raise TimeLimitExceeded
    if status < 0:
        raise ParserCrashed
    if status > 0:
        raise ExtractorUnavailable(f"The text extraction ended with status {status} before it read the file.")
    try:
        told = _ANSWER.validate_json(answer)
    except ValidationError as error:
        raise ParserCrashed from error
    if isinstance(told, _Refusal):
        raise UNREADABLE.get(told.unreadable, ParserCrashed)
    return told
