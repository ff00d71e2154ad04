"""The doctor on this computer: open files, and free space where a local platform keeps its data."""

import resource
import shutil
from pathlib import Path

from nexarch.cli.findings import Finding, Status
from nexarch.cli.output import size

_FILES_WANTED = 4096  # each connection and each file in flight is one
_SPACE_WARN = 5 << 30  # bytes
_SPACE_FAIL = 1 << 30


def check_host(endpoints: Path | None) -> list[Finding]:
    """Limits of this computer; `endpoints` is the endpoints.json of a platform that runs here."""
    findings = [_open_files()]
    if endpoints is not None:
        findings.append(_space(endpoints.resolve().parent))
    return findings


def _open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= _FILES_WANTED
    return Finding(
        check="open files",
        status="ok" if enough else "warn",
        detail=f"{soft} for one process",
        mend="" if enough else f"Raise the limit to {_FILES_WANTED} where services run: ulimit -n, or LimitNOFILE=.",
    )


def _space(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    status: Status = "fail" if free < _SPACE_FAIL else "warn" if free < _SPACE_WARN else "ok"
    return Finding(
        check="disk space",
        status=status,
        detail=f"{size(free)} free at {folder}",
        mend="" if status == "ok" else "Make room, or move the folder: uploads end with 507 when it is full.",
    )
