"""The objects below a folder, in the order of their keys, one folder in memory at a time."""

import os
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC, datetime

from nexarch.storage.contract import StoredObject


def walk(folder: int, *, path: str = "", prefix: str = "", after: str = "") -> Generator[StoredObject, None, None]:
    """Yield the objects below an open folder whose key is `path` and whose keys begin with `prefix`, after `after`.

    What begins with a dot is none of them, and no symbolic link is followed. What vanishes meanwhile is left out.
    """
    for name, is_folder in _entries(folder):
        key = path + name
        if is_folder:
            if _may_hold(key, prefix, after):
                yield from _walk_inner(folder, name, key, prefix, after)
        elif key > after and key.startswith(prefix):
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
                yield StoredObject(key=key, size_bytes=status.st_size, modified_at=modified_at)


def _walk_inner(folder: int, name: str, path: str, prefix: str, after: str) -> Generator[StoredObject, None, None]:
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        yield from walk(inner, path=path, prefix=prefix, after=after)
    finally:
        os.close(inner)


def _entries(folder: int) -> list[tuple[str, bool]]:
    """The names in a folder, those of folders with their slash: so they sort as the keys do (`a-b`, `a/b`, `ab`)."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append((entry.name + "/", True))
            elif entry.is_file(follow_symlinks=False):
                found.append((entry.name, False))
    return sorted(found)


def _may_hold(path: str, prefix: str, after: str) -> bool:
    """Whether keys below this folder can begin with `prefix` and come after `after`."""
    return (path.startswith(prefix) or prefix.startswith(path)) and (path > after or after.startswith(path))
