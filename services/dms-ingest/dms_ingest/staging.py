"""The staging folder: what lies on disk of uploads until they are complete, one file for each session.

`<folder>/<tenant>/<session id>`. What is in a file is the business of `dms_ingest.sealed_file`; here are folders,
reads, writes and locks. Locks are byte-range locks of the open file (`F_OFD_SETLK`): they hold between processes that
share the folder and between two who opened the file in one process, and end with the process that holds them. The lock
of one byte far beyond the end keeps the file still while it is sealed as an object: those who write hold it together,
who completes holds it alone. The bytes themselves are locked while they are written.

All functions block: call them in threads, unless the file was open a moment ago.
"""

import errno
import fcntl
import os
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from dms_ingest.page_cache import PageCache
from nexarch.errors import InsufficientStorage

_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # disk, quota, the process's file size limit
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_NOT_DIRECT = {errno.EINVAL, errno.EOPNOTSUPP}  # what a file system says that opens a file so, and cannot do it
_IMPOSSIBLE = -1
_WHOLE = 1 << 62  # the byte whose lock stands for the file
_flock = struct.Struct("@hhqqi4x").pack  # struct flock: type, whence, start, length, pid


class StagingFull(InsufficientStorage):
    """The disk for uploads is full; the ranges that lie on it are recorded, send the others later."""

    code = "staging-full"
    title = "The disk for uploads is full"

    def __init__(self) -> None:
        super().__init__("The disk for uploads is full. What lies on it is recorded; send the rest later.")


class Busy(Exception):
    """Someone else holds the staged file in a way that excludes ours."""


class StagedFile:
    """An open staged file under a lock; both end with `close`."""

    def __init__(self, descriptor: int, session_id: UUID, cache: PageCache) -> None:
        self._descriptor = descriptor
        self._session_id = session_id
        self._cache = cache
        self._direct: int | None = None  # the same file, opened to go past the page cache; -1: not possible here

    def write_at(self, data: memoryview, offset: int) -> int:
        """Write at an offset and return how many bytes went in: fewer than given only if the disk is full."""
        written = 0
        while written < len(data):
            try:
                written += os.pwrite(self._descriptor, data[written:], offset + written)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                break
        return written

    def read_at(self, buffer: memoryview, offset: int) -> int:
        """Fill the buffer from an offset on; returns fewer bytes than it holds only at the end of the file."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(self._descriptor, [buffer[filled:]], offset + filled)
            if count == 0:
                break
            filled += count
        return filled

    def write_pages(self, data: memoryview, offset: int) -> int:
        """`write_at` for much: through the page cache while there is room, else past it where the file system can.

        `data` begins at a page of memory, `offset` at one of the file, and all is whole pages.
        """
        written = 0
        cached = self._cache.take(self._session_id, offset, offset + len(data))
        if not cached and (direct := self._opened_direct()) != _IMPOSSIBLE:
            try:
                written = os.pwrite(direct, data, offset)
            except OSError as error:
                if error.errno not in _NOT_DIRECT | _FULL:
                    raise
        return written + self.write_at(data[written:], offset + written)

    def read_pages(self, buffer: memoryview, offset: int) -> int:
        """`read_at` for much: the way it was written, as far as this process knows; on the same terms."""
        filled = 0
        cached = self._cache.holds(self._session_id, offset + len(buffer))
        if not cached and (direct := self._opened_direct()) != _IMPOSSIBLE:
            try:
                filled = os.preadv(direct, [buffer], offset)
            except OSError as error:
                if error.errno not in _NOT_DIRECT:
                    raise
        return filled + self.read_at(buffer[filled:], offset + filled)

    @contextmanager
    def locked(self, offset: int, length: int) -> Iterator[None]:
        """Wait until nobody else has these bytes locked, and keep others from it; hold one such lock at a time."""
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLKW, _flock(fcntl.F_WRLCK, os.SEEK_SET, offset, length, 0))
        try:
            yield
        finally:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, os.SEEK_SET, offset, length, 0))

    def begin_sync(self, offset: int, length: int) -> None:
        """Begin to bring a range to the disk, so that `sync` finds little left to wait for; does not wait itself."""
        # The advice says that we do not need the pages: Linux starts to write them, and keeps those it has to write.
        os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Return when the bytes written so far would survive a power cut; raises StagingFull."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:  # a disk that promised more than it has
            if error.errno in _FULL:
                raise StagingFull from error
            raise

    def close(self) -> bool:
        """Give the file and the lock back; returns whether there is anything in the file."""
        holds_bytes = os.fstat(self._descriptor).st_size > 0
        os.close(self._descriptor)
        if self._direct is not None and self._direct != _IMPOSSIBLE:
            os.close(self._direct)
        return holds_bytes

    def _opened_direct(self) -> int:
        if self._direct is None:
            try:
                self._direct = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
            except OSError:  # no such file system, no /proc, no descriptor left: whatever it is, there is another way
                self._direct = _IMPOSSIBLE
        return self._direct


class Staging:
    """The staged files below one folder, which is made if it is missing.

    So many bytes of their whole slots may wait in the page cache: see `dms_ingest.page_cache`.
    """

    def __init__(self, folder: Path, cache_bytes: int = 0) -> None:
        self._folder = folder
        self._cache = PageCache(cache_bytes)
        folder.mkdir(parents=True, exist_ok=True)

    def open_shared(self, tenant: str, session_id: UUID) -> StagedFile:
        """Open a session's file, made if it is missing, to write beside others; `Busy` while someone holds it alone.

        Raises StagingFull.
        """
        return self._open(tenant, session_id, fcntl.F_RDLCK)

    def open_alone(self, tenant: str, session_id: UUID, *, make: bool = True) -> StagedFile:
        """Open a session's file, made if it is missing, with nobody else in it; `Busy` while somebody is.

        Raises StagingFull, and without `make` FileNotFoundError.
        """
        return self._open(tenant, session_id, fcntl.F_WRLCK, make=make)

    def remove(self, tenant: str, session_id: UUID) -> None:
        """Remove a session's file, if it has one; who has it open keeps what they have."""
        self._path(tenant, session_id).unlink(missing_ok=True)
        self._cache.forget(session_id)

    def staged(self, tenant: str) -> list[UUID]:
        """The sessions of a tenant that have a file here; what else lies in the folder is not ours."""
        try:
            names = [file.name for file in (self._folder / tenant).iterdir()]
        except FileNotFoundError:
            return []
        return [UUID(name) for name in names if _SESSION_ID.fullmatch(name)]

    def check(self) -> None:
        """Raise OSError unless the folder takes files. A full one does: those who upload are told, others may read."""
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(b"ready")
        except OSError as error:
            if error.errno not in _FULL:
                raise

    def _open(self, tenant: str, session_id: UUID, kind: int, *, make: bool = True) -> StagedFile:
        path = self._path(tenant, session_id)
        try:
            if make:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, _OPEN | (os.O_CREAT if make else 0), 0o600)
        except OSError as error:
            if error.errno in _FULL:
                raise StagingFull from error
            raise
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(kind, os.SEEK_SET, _WHOLE, 1, 0))
        except (BlockingIOError, PermissionError) as error:  # POSIX leaves the choice between the two
            os.close(descriptor)
            raise Busy(str(path)) from error
        return StagedFile(descriptor, session_id, self._cache)

    def _path(self, tenant: str, session_id: UUID) -> Path:
        return self._folder / tenant / str(session_id)
