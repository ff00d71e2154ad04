"""What the child gives up before it looks at the first byte from outside (Linux).

Set by the child itself, not between fork and exec: that would run Python in a copy of a process with threads.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from dms_worker.extract.limits import MIB, Limits

# The parent's watch on resident memory acts first; this net catches one huge allocation between two looks.
ADDRESS_SPACE_HEADROOM = 256 * MIB
_OPEN_FILES = 32

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38


def confine(limits: Limits, parent: int) -> None:
    """Die with `parent`; dump no core, start no process; bounded time and address space."""
    with suppress(OSError):  # a preference: where memory runs out, the kernel ends this process and not the service
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in (
        (_PR_SET_PDEATHSIG, signal.SIGKILL),
        (_PR_SET_DUMPABLE, 0),
        (_PR_SET_NO_NEW_PRIVS, 1),
    ):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    if os.getppid() != parent:  # it died before the request above
        raise SystemExit(1)
    address_space = limits.memory_bytes + ADDRESS_SPACE_HEADROOM
    for limit, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),  # SIGXCPU, then SIGKILL
        (resource.RLIMIT_AS, address_space, address_space),
        (resource.RLIMIT_NPROC, 0, 0),  # root is exempt
        (resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),
    ):
        resource.setrlimit(limit, (soft, hard))


def write_no_file() -> None:
    """From here on every write to a file fails; pipes stay open."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
