"""A small disk for staged uploads that can be filled to its last byte."""

import asyncio
import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from faults.stack import KNOWN_WITHIN_S
from support.waiting import eventually

_PIECE = b"\0" * (1 << 16)
_AGAIN_S = 0.05
_ROOM_FOR_LOG = 1 << 17  # bytes, some hundred lines: what the clients send then is to be longer


class StagingDisk:
    """A folder on a tmpfs of its own.

    Where we may not mount one, the process that stages gets a limit for the size of its files instead: to it that is
    the same, a short write and then an error.
    """

    def __init__(self, folder: Path, *, is_mounted: bool) -> None:
        self._folder = folder
        self._is_mounted = is_mounted

    @asynccontextmanager
    async def full(self, pid: int) -> AsyncIterator[None]:
        """Within the block it is full, however much is removed from it; `pid` is who stages."""
        if not self._is_mounted:
            limit, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_log_size(pid) + _ROOM_FOR_LOG, most))
            try:
                yield
            finally:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, most))
            return
        filler = self._folder / ".filler"
        filling = asyncio.create_task(_fill(filler))

        async def is_full() -> bool:
            return _is_full(self._folder)

        try:
            await eventually(is_full, within_s=KNOWN_WITHIN_S)
            yield
        finally:
            filling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await filling
            filler.unlink()


def _log_size(pid: int) -> int:
    """The limit is for the service's log too."""
    return Path(f"/proc/{pid}/fd/1").stat().st_size


async def _fill(filler: Path) -> None:
    """Take every byte that is free, and those that become free."""
    with filler.open("ab", buffering=0) as file:
        while True:
            with contextlib.suppress(OSError):
                while True:
                    file.write(_PIECE)
            await asyncio.sleep(_AGAIN_S)


def _is_full(folder: Path) -> bool:
    probe = folder / ".probe"
    try:
        probe.write_bytes(b"\0")
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        probe.unlink(missing_ok=True)
    return False


@contextmanager
def staging_disk(folder: Path, size: int) -> Iterator[StagingDisk]:
    """Make the folder, and a disk of so many bytes of it."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield StagingDisk(folder, is_mounted=is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
