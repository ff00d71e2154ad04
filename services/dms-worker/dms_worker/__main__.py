"""The process of dms-worker: settings, logs, serve; nothing else."""

import sys

from dms_worker.app import create_app
from dms_worker.settings import Settings
from nexarch.serve import serve
from nexarch.settings import load


def main() -> None:
    """Run until told to stop; exits with 0 after a signal, 1 if a part died, 2 for wrong settings."""
    settings = load(Settings)
    sys.exit(serve("dms-worker", settings, lambda: create_app(settings)))


if __name__ == "__main__":
    main()
