"""Which slots of staged files are written through the kernel's page cache: the first of each upload, while few wait.

Most uploads are complete, and their staged file gone, before the kernel would write it (30 s): then its bytes are never
written, and complete reads them from memory. Many of them would make the kernel hold up whoever writes until the disk
has taken them, so beyond a share all others go past the cache. It is only about speed: to take a range for cached that
is not, or the other way round, is never wrong, and another process that completes the upload knows of none of it.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

# When a tenth of the available memory waits for the disk the kernel begins to write, and soon slows down who writes.
_SHARE = 16
_WRITTEN_AFTER_S = 60.0  # as it is set everywhere, it looks every 5 s for what is older than 30
_GAP = 1 << 20  # a chunk may end within a slot, which is always written through the cache, and not counted

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def share_of_memory() -> int:
    """How many bytes may wait unless a setting says otherwise: of what is available, here or to the container."""
    lines = (_PROC / "meminfo").read_text().splitlines()
    (available,) = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return min([available, *_limits()]) // _SHARE


def _limits() -> Iterator[int]:
    """The limits of the control groups that this process is in, of both versions; of each also those around it."""
    for line in (_PROC / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, name = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        inner = root / path.lstrip("/")
        # In a container the path may be one of the host, but the root is always that of the container.
        for folder in (inner, *inner.parents[: len(inner.parts) - len(root.parts)]):
            file = folder / name
            if file.exists() and (limit := file.read_text().strip()).isdecimal():
                yield int(limit)


@dataclass(slots=True)
class _Upload:
    """Of a staged file what went through the cache: up to `end`, of which `waits` bytes may not be on the disk yet."""

    end: int = 0
    waits: int = 0


class PageCache:
    """Says of the ranges of staged files which way to take; `most` bytes may wait. Ranges are those of the file."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._uploads: dict[UUID, _Upload] = {}
        self._written: deque[tuple[float, UUID, _Upload, int]] = deque()  # when, of what, how many bytes
        self._lock = threading.Lock()

    def take(self, session_id: UUID, start: int, stop: int) -> bool:
        """Whether to write a range through the cache; it counts as waiting from now on."""
        with self._lock:
            length = stop - start
            if length > self._left:
                self._let_go()
            upload = self._uploads.get(session_id) or _Upload()
            if length > self._left or start > upload.end + _GAP:
                return False
            self._left -= length
            upload.waits += length
            upload.end = max(upload.end, stop)
            self._uploads[session_id] = upload
            self._written.append((time.monotonic(), session_id, upload, length))
            return True

    def holds(self, session_id: UUID, stop: int) -> bool:
        """Whether to read a range that ends here through the cache."""
        with self._lock:
            upload = self._uploads.get(session_id)
            return upload is not None and stop <= upload.end

    def forget(self, session_id: UUID) -> None:
        """The staged file is gone."""
        with self._lock:
            upload = self._uploads.pop(session_id, None)
            if upload is not None:
                self._left += upload.waits
                upload.waits = 0

    def _let_go(self) -> None:
        """What was written long ago waits no more, most likely."""
        until = time.monotonic() - _WRITTEN_AFTER_S
        while self._written and self._written[0][0] <= until:
            _, session_id, upload, length = self._written.popleft()
            if upload.waits:  # else it was forgotten
                upload.waits -= length
                self._left += length
                if not upload.waits:
                    del self._uploads[session_id]
