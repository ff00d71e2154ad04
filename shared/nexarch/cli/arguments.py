"""Arguments that become part of a path: checked, so that none can name another path."""

import re

import click

_SLUG = re.compile(r"[a-z][a-z0-9_]{1,48}")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class _Pattern(click.ParamType[str]):
    """A word of a certain form."""

    def __init__(self, name: str, pattern: re.Pattern[str], form: str) -> None:
        self.name = name
        self._pattern = pattern
        self._form = form

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self._pattern.fullmatch(value) is None:
            self.fail(f"{value!r} is not {self._form}.", param, ctx)
        return value


SLUG = _Pattern("slug", _SLUG, "a tenant's slug: a letter a-z, then letters, digits or _, 2 to 49 in all")
KEY = _Pattern("key", _KEY, "a key: letters, digits, '_', '.' or '-'")
