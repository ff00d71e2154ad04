"""Secrets in files: made once, whole or not at all, readable by the owner only."""

import base64
import os
import stat
from pathlib import Path

import pytest

from nexarch.private_files import SecretFolder, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_reads_the_folder_and_its_files_whatever_the_umask(tmp_path: Path) -> None:
    folder = SecretFolder(tmp_path / "secrets")
    before = os.umask(0)
    try:
        folder.write("token", "abc")
    finally:
        os.umask(before)

    assert (mode(folder.path), mode(folder.file("token"))) == (0o700, 0o600)


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    folder = SecretFolder(tmp_path)

    password, key = folder.password("password"), folder.key("key")

    assert (folder.password("password"), folder.key("key")) == (password, key)
    assert SecretFolder(tmp_path).read("password") == password
    assert len(base64.b64decode(key, validate=True)) == 32


def test_an_emptied_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "master-key").touch()

    assert SecretFolder(tmp_path).key("master-key") == ""


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    write_private(file, "old")

    def disk_full(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="disk full"):
        write_private(file, "new")

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("token", "old")]
