"""A disk whose size a test decides."""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LARGE = 256 << 20  # bytes


class Disk:
    """A folder on a disk of its own: a tmpfs.

    Where we may not mount one, no file of this process may become larger than the disk instead: to who writes a file it
    is the same, a short write and then an error.
    """

    def __init__(self, folder: Path) -> None:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_LARGE},mode=700", "tmpfs", str(folder)]
        self._folder = folder
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._is_mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0

    def resize(self, size: int = _LARGE) -> None:
        """Give the disk so many bytes, no fewer than lie on it."""
        if self._is_mounted:
            subprocess.run(["mount", "-o", f"remount,size={size}", self._folder], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._limits[1]))

    def close(self) -> None:
        """Take the disk away."""
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", self._folder], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@contextmanager
def disk_at(folder: Path) -> Iterator[Disk]:
    """Make the folder, and a disk of it, large at first."""
    folder.mkdir()
    disk = Disk(folder)
    try:
        yield disk
    finally:
        disk.close()
