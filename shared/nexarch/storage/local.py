"""The object store as a folder: `<base>/<tenant>/<key>`, for one host or a shared file system.

An object is written to a temporary name, synced, linked to its own, and the folder synced: after a crash it is there
as a whole or not at all. A link, unlike a rename, never takes the place of another object. Every step goes from an
open folder to the next by name and follows no symbolic link, so no key leaves the base folder, whatever someone has
put into it. File I/O runs in threads.
"""

import errno
import os
import secrets
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path

from nexarch.errors import InsufficientStorage
from nexarch.storage.contract import (
    BucketNotFound,
    Chunk,
    Listing,
    NoSignedUrl,
    ObjectExists,
    ObjectNotFound,
    StoredObject,
    Through,
    UnsafeKey,
    split_key,
)
from nexarch.storage.local_walk import walk
from nexarch.threads import run_in_thread

READ_SIZE = 2 << 20  # so large that the hop to a thread costs little
# While so many objects are read, further ones are read in small pieces: an object that is open holds four pieces in
# memory, 8 MiB in all or half a MiB (docs/decisions/0022).
MANY_READERS = 8
SMALL_READ_SIZE = 1 << 17
# In each bucket: files that are being written; what a killed process leaves lies here. No key names it, since no
# component begins with a dot.
INCOMING = ".incoming"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody put here must not wait for its other end.
_OPEN_OBJECT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PAGE = 1000  # objects of a listing for one hop to a thread
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # disk, quota, the process's file size limit


class LocalStorage:
    """Implements `nexarch.storage.Storage` below one base folder, which is made if it is missing."""

    def __init__(self, base: Path) -> None:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._base = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._readers = 0

    def close(self) -> None:
        """Give the base folder back; nothing works after it."""
        os.close(self._base)

    async def ensure_bucket(self, tenant: str) -> None:
        """See `Storage`."""
        split_key(tenant, "any")
        await run_in_thread(self._make_bucket, tenant)

    async def put(self, tenant: str, key: str, stream: AsyncIterator[Chunk]) -> int:
        """See `Storage`."""
        *folders, name = split_key(tenant, key)
        incoming = _Incoming()
        try:
            await run_in_thread(self._begin, incoming, tenant)
            async for chunk in stream:
                await run_in_thread(incoming.write, chunk)
            await run_in_thread(self._publish, incoming, [tenant, *folders], name)
        finally:
            await run_in_thread(incoming.discard)
        return incoming.size

    @asynccontextmanager
    async def get(
        self, tenant: str, key: str, *, start: int = 0, stop: int | None = None, through: Through = memoryview
    ) -> AsyncIterator[AsyncIterator[memoryview]]:
        """See `Storage`."""
        if start < 0 or (stop is not None and stop < start):
            raise ValueError(f"Bytes {start} to {stop} are not a range.")
        *folders, name = split_key(tenant, key)
        with ExitStack() as closing:
            file, size = await run_in_thread(self._open, [tenant, *folders], name, closing)
            closing.callback(self._count_reader, -1)
            self._count_reader(1)
            most = READ_SIZE if self._readers <= MANY_READERS else SMALL_READ_SIZE
            chunks = _read(file, start, size if stop is None else min(stop, size), most, through)
            try:
                yield chunks
            finally:
                await chunks.aclose()  # before the descriptor is closed and becomes somebody else's

    async def head(self, tenant: str, key: str) -> int:
        """See `Storage`."""
        *folders, name = split_key(tenant, key)
        return await run_in_thread(self._size, [tenant, *folders], name)

    async def delete(self, tenant: str, key: str) -> None:
        """See `Storage`."""
        *folders, name = split_key(tenant, key)
        await run_in_thread(self._remove, [tenant, *folders], name)

    async def list_objects(self, tenant: str, *, prefix: str = "", after: str = "") -> Listing:
        """See `Storage`."""
        split_key(tenant, "any")
        with ExitStack() as closing:
            objects = await run_in_thread(self._walk, tenant, prefix, after, closing)
            while page := await run_in_thread(list, islice(objects, _PAGE)):
                for stored in page:
                    yield stored

    async def sweep_incomplete(self, tenant: str, before: datetime) -> int:
        """See `Storage`; a file counts from when it was last written to."""
        split_key(tenant, "any")
        return await run_in_thread(self._sweep, tenant, before.timestamp())

    async def signed_url(self, tenant: str, key: str, *, ttl_s: int) -> str:
        """Raise NoSignedUrl: files have no address."""
        split_key(tenant, key)
        raise NoSignedUrl("Objects in a folder have no address; dms-ingest hands them out.")

    def _count_reader(self, change: int) -> None:
        self._readers += change

    def _make_bucket(self, tenant: str) -> None:
        with _full_disk_named(), _folder(self._base, [tenant, INCOMING], make=True):
            pass

    def _begin(self, incoming: "_Incoming", tenant: str) -> None:
        with _missing_bucket_named(tenant), _full_disk_named(), _folder(self._base, [tenant, INCOMING]) as folder:
            incoming.create_in(folder)

    def _publish(self, incoming: "_Incoming", folders: list[str], name: str) -> None:
        """Give the finished file its name; only after that it can be seen."""
        try:
            with _full_disk_named(), _folder(self._base, folders, make=True) as folder:
                incoming.link_to(folder, name)
        except FileExistsError as error:
            raise self._occupied(folders, name) from error
        except NotADirectoryError as error:
            raise _meets_else(name) from error

    def _occupied(self, folders: list[str], name: str) -> ObjectExists | UnsafeKey:
        try:
            self._size(folders, name)
        except ObjectNotFound:
            return _meets_else(name)
        return ObjectExists(f"There is an object {name!r} already.")

    def _open(self, folders: list[str], name: str, closing: ExitStack) -> tuple[int, int]:
        """Return an open file, which `closing` will close even if nobody waits for this any more, and its size."""
        with _absent_named(name), _folder(self._base, folders) as folder:
            file = os.open(name, _OPEN_OBJECT, dir_fd=folder)
        closing.callback(os.close, file)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _not_found(name)
        return file, status.st_size

    def _size(self, folders: list[str], name: str) -> int:
        with _absent_named(name), _folder(self._base, folders) as folder:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise _not_found(name)
        return status.st_size

    def _remove(self, folders: list[str], name: str) -> None:
        with _absent_named(name), _folder(self._base, folders) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    def _walk(self, tenant: str, prefix: str, after: str, closing: ExitStack) -> Iterator[StoredObject]:
        """Return the objects of a bucket; `closing` ends the walk, wherever it is."""
        with _missing_bucket_named(tenant):
            bucket = closing.enter_context(_folder(self._base, [tenant]))
        objects = walk(bucket, prefix=prefix, after=after)
        closing.callback(objects.close)
        return objects

    def _sweep(self, tenant: str, before: float) -> int:
        swept = 0
        with _missing_bucket_named(tenant), _folder(self._base, [tenant, INCOMING]) as folder:
            for name in os.listdir(folder):  # noqa: PTH208 - of a descriptor
                with suppress(FileNotFoundError):  # its put has ended
                    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
                        os.unlink(name, dir_fd=folder)
                        swept += 1
        return swept


class _Incoming:
    """A file that is being written under a temporary name."""

    def __init__(self) -> None:
        self.size = 0
        self._name = secrets.token_hex(16)
        self._folder: int
        self._file: int
        self._undo = ExitStack()

    def create_in(self, folder: int) -> None:
        self._folder = os.dup(folder)
        self._undo.callback(os.close, self._folder)
        self._file = os.open(self._name, _CREATE, mode=0o600, dir_fd=self._folder)
        self._undo.callback(self._unlink)
        self._undo.callback(os.close, self._file)

    def write(self, chunk: Chunk) -> None:
        rest = memoryview(chunk).cast("B")
        with _full_disk_named():
            while rest:
                written = os.write(self._file, rest)
                self.size += written
                rest = rest[written:]

    def link_to(self, folder: int, name: str) -> None:
        """Raises FileExistsError, whatever has that name."""
        os.fsync(self._file)
        os.link(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder, follow_symlinks=False)
        os.fsync(folder)

    def discard(self) -> None:
        """Close the file and take its temporary name away; called once, at the end, whatever came before."""
        self._undo.close()

    def _unlink(self) -> None:
        with suppress(FileNotFoundError):  # swept, because nothing was written for so long
            os.unlink(self._name, dir_fd=self._folder)


async def _read(file: int, start: int, stop: int, most: int, through: Through) -> AsyncGenerator[memoryview, None]:
    """Yield the bytes from `start` to `stop`, at most so many at once, all in one buffer, as `through` makes them."""
    buffer = memoryview(bytearray(max(0, min(most, stop - start))))

    def read() -> tuple[int, memoryview]:
        count = os.preadv(file, [buffer[: stop - start]], start)
        return count, through(buffer[:count])

    while start < stop:
        count, chunk = await run_in_thread(read)
        if not count:
            return  # cut short by somebody else; who reads it knows how long it should be
        yield chunk
        start += count


@contextmanager
def _folder(base: int, names: list[str], *, make: bool = False) -> Iterator[int]:
    """Open the folder at the end of `names`, one after the other, never over a symbolic link."""
    folder = os.dup(base)
    try:
        for name in names:
            inner = _enter(folder, name, make=make)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _enter(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another writer was first
        os.mkdir(name, mode=0o700, dir_fd=folder)
    os.fsync(folder)
    return os.open(name, _OPEN_FOLDER, dir_fd=folder)


@contextmanager
def _full_disk_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise InsufficientStorage("The disk of the object store is full; nothing was stored.") from error
        raise


@contextmanager
def _missing_bucket_named(tenant: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BucketNotFound(f"The tenant {tenant!r} has no bucket yet.") from error


@contextmanager
def _absent_named(name: str) -> Iterator[None]:
    """A missing folder or file, and a symbolic link (ELOOP) or file on the way (ENOTDIR): no object of ours."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}:
            raise _not_found(name) from error
        raise


def _not_found(name: str) -> ObjectNotFound:
    return ObjectNotFound(f"There is no object {name!r} in the store.")


def _meets_else(name: str) -> UnsafeKey:
    return UnsafeKey(f"The key of an object meets something else at {name!r} or above.")
