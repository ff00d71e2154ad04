"""core-api's process: settings, logs, serve; nothing else."""

import sys

from core_api.app import create_app
from core_api.settings import Settings
from nexarch.serve import serve
from nexarch.settings import load


def main() -> None:
    """Run until told to stop; exits with 0 after a signal, 1 if a part died, 2 for wrong settings."""
    settings = load(Settings)
    sys.exit(serve("core-api", settings, lambda: create_app(settings)))


if __name__ == "__main__":
    main()
