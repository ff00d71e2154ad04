"""The process of dms-worker: settings, logs, serve; nothing else."""

import gc
import sys

from dms_worker.app import create_app
from dms_worker.settings import Settings
from nexarch.serve import serve
from nexarch.settings import load


def collect_rarely() -> None:
    """Look for garbage in cycles a hundredth as often, and not among what the start has made.

    A job makes a dozen objects, none of them in a cycle; by default a third of the worker's
    own time for a job that does nothing goes into looking (5 µs of 14).
    """
    gc.freeze()
    gc.set_threshold(70_000, 20, 20)


def main() -> None:
    """Run until told to stop; exits with 0 after a signal, 1 if a part died, 2 for wrong settings."""
    settings = load(Settings)
    collect_rarely()
    sys.exit(serve("dms-worker", settings, lambda: create_app(settings)))


if __name__ == "__main__":
    main()
