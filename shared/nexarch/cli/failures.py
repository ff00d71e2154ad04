"""What a command ends with when it cannot do its work: one line for people, an exit code for scripts."""

from collections.abc import Mapping
from typing import IO, Any

import click

FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_AUTHORISED = 4
UNAVAILABLE = 5
INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    refused or failed
  2    the command line is wrong
  3    there is no such thing
  4    not logged in, or a right is missing
  5    a service does not answer, or something took too long
  130  interrupted (Ctrl-C)
"""


class Failure(click.ClickException):
    """The platform refused, or the work failed; the same command will fail again."""

    exit_code = FAILED

    def __init__(
        self, detail: str, *, hint: str = "", code: str = "", members: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.hint = hint
        self.code = code  # of the problem that a service answered, see docs/problems.md
        self.members = members or {}

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it as one line on stderr."""
        click.echo(f"nexarch: {self}", file=file, err=file is None)

    def __str__(self) -> str:
        parts = [" ".join(self.message.split()), self.hint, f"[{self.code}]" if self.code else ""]
        return " ".join(part for part in parts if part)


class NotFound(Failure):
    """There is no such thing, or it belongs to another tenant."""

    exit_code = NOT_FOUND


class NotAuthorised(Failure):
    """Nobody is logged in, the login has expired, or a right is missing."""

    exit_code = NOT_AUTHORISED


class Unavailable(Failure):
    """A service does not answer or says so itself; the same command may succeed later."""

    exit_code = UNAVAILABLE
