"""What the command remembers of an unfinished upload, so that the next run of it goes on where this one stopped.

One small file for each upload under `${XDG_STATE_HOME:-~/.local/state}/nexarch/uploads`. A file that was changed
meanwhile (size or time of change) is another upload.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from nexarch.private_files import write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadKey:
    """What makes two runs of the command the same upload."""

    server: str
    tenant: str
    path: str
    size: int
    mtime_ns: int
    request: str  # what was asked for besides: name, type, folder, document

    @property
    def state_file(self) -> Path:
        """Where this upload is remembered."""
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return Path(base) / "nexarch" / "uploads" / f"{digest[:32]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadState:
    """An upload that the server knows of."""

    upload_id: UUID
    sha256: str


def read_state(key: UploadKey) -> UploadState | None:
    """What is remembered, or None; a damaged file is as good as none."""
    try:
        values = json.loads(key.state_file.read_text(encoding="utf-8"))
        return UploadState(upload_id=UUID(values["upload_id"]), sha256=str(values["sha256"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_state(key: UploadKey, state: UploadState) -> None:
    """Remember an upload."""
    values = {**asdict(key), "upload_id": str(state.upload_id), "sha256": state.sha256}
    write_private(key.state_file, json.dumps(values) + "\n")


def forget_state(key: UploadKey) -> None:
    """Forget an upload that is finished or lost."""
    key.state_file.unlink(missing_ok=True)
