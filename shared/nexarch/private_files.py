"""Files that only their owner may read, and folders that hold one secret a file."""

import base64
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 onto the disk; a reader sees the old text or the new one, never a half."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # makes it 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class SecretFolder:
    """Keys, passwords and credentials, one a file. The folder is made with the first of them."""

    path: Path

    def file(self, name: str) -> Path:
        """Where a secret lies or will lie, for a setting `..._FILE`."""
        return self.path / name

    def read(self, name: str) -> str | None:
        """The secret, or None where there is no such file."""
        file = self.path / name
        return file.read_text(encoding="utf-8").strip() if file.exists() else None

    def write(self, name: str, secret: str) -> None:
        """Put a secret into its file, whole or not at all."""
        write_private(self.path / name, f"{secret}\n")

    def password(self, name: str) -> str:
        """The password of this name, made at first use: 192 random bits as 32 characters."""
        return self._kept(name, secrets.token_urlsafe(24))

    def key(self, name: str) -> str:
        """The key of this name, made at first use: 32 random bytes in base64."""
        return self._kept(name, base64.b64encode(secrets.token_bytes(32)).decode())

    def _kept(self, name: str, new: str) -> str:
        old = self.read(name)
        if old is not None:
            return old
        self.write(name, new)
        return new
