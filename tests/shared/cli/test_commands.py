"""What holds for all commands: help, exit codes, the page that describes them."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nexarch.cli import main
from nexarch.cli.failures import EXIT_CODES, Failure

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that name it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found, (*path, name))


COMMANDS = dict(leaves(main))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_stands_on_the_page(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])

    assert result.exit_code == 0
    assert COMMANDS[path].help
    assert f"`nexarch {' '.join(path)}" in PAGE.read_text()


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != ("up",)], ids=" ".join)
def test_every_command_speaks_json_where_it_is_asked_at_its_end(path: tuple[str, ...]) -> None:
    assert "--json" in {name for parameter in COMMANDS[path].params for name in parameter.opts}


def test_the_help_and_the_page_name_every_exit_code() -> None:
    result = CliRunner().invoke(main, ["--help"])

    for line in EXIT_CODES.splitlines()[2:]:
        code, meaning = line.split(maxsplit=1)
        assert meaning in result.output
        assert f"| {code} | {meaning}" in PAGE.read_text()


def test_a_failure_is_one_line_with_what_mends_it_and_the_problems_code() -> None:
    failure = Failure("It is\nso.", hint="Do this.", code="so")

    assert str(failure) == "It is so. Do this. [so]"


def test_what_nobody_expected_is_one_line_too_and_a_traceback_with_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("of nature")

    monkeypatch.setattr("nexarch.cli.operating.resolve_target", broken)

    short = CliRunner().invoke(main, ["tenants", "list"])
    long = CliRunner().invoke(main, ["tenants", "list", "--debug"])

    assert short.exit_code == 1
    assert short.stderr == "nexarch: Unexpected RuntimeError: of nature Run it with --debug to see where.\n"
    assert isinstance(long.exception, RuntimeError)


def test_an_unknown_command_ends_with_2() -> None:
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
