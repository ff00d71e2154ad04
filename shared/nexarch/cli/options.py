"""The options that every command takes, before or after the command's name: --json, --endpoints, --debug."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Options:
    """What the shared options said."""

    json: bool = False
    debug: bool = False
    endpoints: Path | None = None


pass_options = click.make_pass_decorator(Options, ensure=True)


def shared_options(command: F) -> F:
    """Add the shared options to a command; they end in the `Options` of its context."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click decides
    if value and param.name is not None:
        setattr(ctx.ensure_object(Options), param.name, value)


_SHARED = [
    click.option("--json", is_flag=True, expose_value=False, callback=_keep, help="One JSON document on stdout."),
    click.option(
        "--endpoints",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="NEXARCH_ENDPOINTS",
        expose_value=False,
        callback=_keep,
        help="The endpoints.json of a platform that `nexarch up` started.",
    ),
    click.option("--debug", is_flag=True, expose_value=False, callback=_keep, help="Show tracebacks."),
]


def page_options(command: F) -> F:
    """Add --limit, --all and --cursor to a list."""
    for option in reversed(_PAGE):
        command = option(command)
    return command


_PAGE = [
    click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many."),
    click.option("--all", "everything", is_flag=True, help="Without a limit."),
    click.option("--cursor", help="Go on after the page whose `next_cursor` this is."),
]


retry_option = click.option(
    "--retry-for",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    help="Seconds without any progress after which a broken line is given up.",
)
