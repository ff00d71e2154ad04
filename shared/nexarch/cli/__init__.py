"""The command `nexarch`: one module for each command or group of commands.

A module is imported when its command is asked for, so `nexarch login` does not wait for the imports of
`nexarch up`. A new command is one line in `_COMMANDS`.
"""

from importlib import import_module
from typing import Any

import click

from nexarch.cli.failures import EXIT_CODES, INTERRUPTED, Failure
from nexarch.cli.options import Options, shared_options

_COMMANDS = {
    "up": "nexarch.cli.up:up",
    "login": "nexarch.cli.login:login",
    "logout": "nexarch.cli.login:logout",
    "token": "nexarch.cli.token:token",
    "upload": "nexarch.cli.upload:upload",
    "documents": "nexarch.cli.documents:documents",
    "search": "nexarch.cli.search:search",
    "download": "nexarch.cli.download:download",
    "settings": "nexarch.cli.settings:settings",
    "tenants": "nexarch.cli.tenants:tenants",
    "users": "nexarch.cli.users:users",
    "keys": "nexarch.cli.keys:keys",
    "flags": "nexarch.cli.flags:flags",
    "modules": "nexarch.cli.modules:modules",
    "jobs": "nexarch.cli.jobs:jobs",
    "check-store": "nexarch.cli.check_store:check_store",
    "usage": "nexarch.cli.usage:usage",
    "migrate": "nexarch.cli.migrate:migrate",
    "bootstrap": "nexarch.cli.bootstrap:bootstrap",
    "doctor": "nexarch.cli.doctor:doctor",
}


class _Commands(click.Group):
    """Imports a command when it is asked for, and ends every failure with one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        options = ctx.ensure_object(Options)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            if options.debug:
                click.echo(_traceback(), err=True)
            raise
        except KeyboardInterrupt:
            click.echo("nexarch: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            if options.debug:
                raise
            raise Failure(
                f"Unexpected {type(error).__name__}: {error}", hint="Run it with --debug to see where."
            ) from error


def _traceback() -> str:
    import traceback  # noqa: PLC0415 - only for --debug

    return traceback.format_exc()


@click.group(cls=_Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nexarch", prog_name="nexarch")
@shared_options
def main() -> None:
    """NEXARCH: documents of many tenants, uploaded, encrypted, processed and found again.

    Log in with `nexarch login`, or work with a platform that `nexarch up` started: its endpoints.json is found
    in .nexarch/ of the current folder, or given with --endpoints.
    """
