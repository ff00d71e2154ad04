"""Which slots of staged files are written through the kernel's page cache: the first of each upload, while few wait.

Most uploads are complete, and their staged file gone, before the kernel would write it (30 s): then its bytes are never
written, and complete reads them from memory. Many of them would make the kernel hold up whoever writes until the disk
has taken them, so beyond a share all others go past the cache.

It is only about speed. Linux writes back and drops the pages of a range before it is read or written past the cache,
slots are whole pages, and who writes one has it locked. So it is never wrong to take a range for cached that is not, or
the other way round; another process that completes the upload knows of none of it.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

# When a tenth of the available memory waits for the disk the kernel begins to write (vm.dirty_background_ratio); from
# halfway to a fifth on (vm.dirty_ratio) it slows down who writes.
_SHARE = 16
_WRITTEN_AFTER_S = 60.0  # it begins after 30 s (vm.dirty_expire_centisecs) and 5 more; as long again for the disk
_AT_ONCE_S = 1.0  # what is written of an upload in this time is counted together
_GAP = 1 << 20  # a chunk may end within a slot, which is always written through the cache, and not counted

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def share_of_memory() -> int:
    """How many bytes may wait unless a setting says otherwise: of what is available now, here or to the container."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
        limits = list(_limits())
    except OSError:  # not a Linux as we know it: then all goes past the cache
        return 0
    available = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return min([*available, *limits], default=0) // _SHARE


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
    """What went through the cache of a staged file: up to `end`, of which `waits` bytes may not be on the disk yet."""

    session_id: UUID
    end: int = 0
    waits: int = 0


@dataclass(slots=True)
class _Written:
    """So many bytes of an upload, at this time (monotonic)."""

    at: float
    upload: _Upload
    length: int


class PageCache:
    """Says of the ranges of staged files which way to take; `most` bytes may wait. Ranges are those of the file."""

    def __init__(self, most: int) -> None:
        self._room = most
        self._uploads: dict[UUID, _Upload] = {}
        self._waiting: deque[_Written] = deque()  # the oldest first; who was forgotten since is among them
        self._lock = threading.Lock()

    def take(self, session_id: UUID, start: int, stop: int) -> bool:
        """Whether to write a range through the cache; it counts as waiting from now on."""
        with self._lock:
            now, length = time.monotonic(), stop - start
            self._let_go(now - _WRITTEN_AFTER_S)
            upload = self._uploads.get(session_id) or _Upload(session_id)
            if length > self._room or start > upload.end + _GAP:
                return False
            self._room -= length
            upload.waits += length
            upload.end = max(upload.end, stop)
            self._uploads[session_id] = upload
            last = self._waiting[-1] if self._waiting else None
            if last is not None and last.upload is upload and now < last.at + _AT_ONCE_S:
                last.length += length
            else:
                self._waiting.append(_Written(now, upload, length))
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
                self._room += upload.waits
                upload.waits = 0

    def _let_go(self, until: float) -> None:
        """What was written before that waits no more, most likely."""
        while self._waiting and (self._waiting[0].at <= until or not self._waiting[0].upload.waits):
            written = self._waiting.popleft()
            upload = written.upload
            if upload.waits:
                upload.waits -= written.length
                self._room += written.length
                if not upload.waits:
                    del self._uploads[upload.session_id]
