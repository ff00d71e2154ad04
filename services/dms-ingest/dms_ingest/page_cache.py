"""Staged bytes that wait in the kernel's page cache rather than go to the disk at once, as long as they are few.

Most uploads are complete, and their staged file gone, before the kernel would write it (30 s): then its bytes are never
written, and complete reads them from memory. Many of them would make the kernel hold up whoever writes, until the disk
has taken them, so beyond a share all others go past the cache. Of each upload the cache has the first bytes. To take a
range for cached that is not, or the other way round, costs time and nothing else.
"""

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

# The kernel begins to write when a tenth of the memory waits for it, and then no process may write as it likes.
_SHARE = 16
_WRITTEN_AFTER_S = 60.0  # it looks every 5 s for what is older than 30
_GAP = 1 << 20  # a chunk may end within a slot, which then goes through the cache by itself
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def share_of_memory() -> int:
    """How many bytes may wait unless a setting says otherwise: of the machine's memory, or of the container's."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CGROUP_LIMIT.read_text().strip()
    except OSError:  # no container, or control groups of the first version
        limit = "max"
    return min(memory, int(limit)) // _SHARE if limit.isdecimal() else memory // _SHARE


@dataclass(slots=True)
class _Prefix:
    """The first `end` bytes of a staged file went through the cache, the last of them at this time (monotonic)."""

    end: int
    at: float


class PageCache:
    """Which parts of staged files lie in the page cache, as far as this process wrote them; at most so many bytes."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._prefixes: OrderedDict[UUID, _Prefix] = OrderedDict()  # the longest untouched first
        self._lock = threading.Lock()

    def admits(self, session_id: UUID, start: int, stop: int) -> bool:
        """Whether a range of a staged file is to be written through the cache; it counts as written then."""
        with self._lock:
            now = time.monotonic()
            prefix = self._prefixes.get(session_id) or _Prefix(0, now)
            if start > prefix.end + _GAP:
                return False
            if (more := stop - prefix.end) > 0:
                if more > self._left:
                    self._let_go(now)
                if more > self._left:
                    return False
                self._left -= more
                prefix.end = stop
            prefix.at = now
            self._prefixes[session_id] = prefix
            self._prefixes.move_to_end(session_id)
            return True

    def holds(self, session_id: UUID, stop: int) -> bool:
        """Whether a staged file is to be read through the cache up to here."""
        with self._lock:
            prefix = self._prefixes.get(session_id)
            return prefix is not None and stop <= prefix.end

    def forget(self, session_id: UUID) -> None:
        """The staged file is gone."""
        with self._lock:
            prefix = self._prefixes.pop(session_id, None)
            if prefix is not None:
                self._left += prefix.end

    def _let_go(self, now: float) -> None:
        """What the kernel has written by now waits no more."""
        while self._prefixes:
            session_id, prefix = next(iter(self._prefixes.items()))
            if prefix.at + _WRITTEN_AFTER_S > now:
                return
            del self._prefixes[session_id]
            self._left += prefix.end
