"""Settings: read once, in `__main__`, from environment variables; a wrong one stops the process with its name.

A text may also come from a file, as secrets do: `CORE_API_MASTER_KEY_FILE=/run/secrets/master-key`.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, IPvAnyNetwork, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

EXIT_BAD_SETTINGS = 2


def _pieces(value: object) -> object:
    return [piece.strip() for piece in value.split(",") if piece.strip()] if isinstance(value, str) else value


# Comma-separated in a variable, as 10.0.0.0/8,fd00::/8.
Networks = Annotated[tuple[IPvAnyNetwork, ...], NoDecode, BeforeValidator(_pieces)]


class TextFiles(EnvSettingsSource):
    """Reads `<PREFIX><FIELD>_FILE` for each field of text, secret or not."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = f"{self.env_prefix}{field_name}_FILE".upper()
        path = os.environ.get(variable)
        if path is None or not _is_text(field):
            return None, field_name, False
        if f"{self.env_prefix}{field_name}".upper() in os.environ:
            raise BadSettings([f"{variable}: set it or {variable.removesuffix('_FILE')}, not both"])
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n"), field_name, False
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings([f"{variable}: {path} cannot be read ({type(error).__name__})"]) from error


class ServiceSettings(BaseSettings):
    """What every service can be told; each service's own settings class adds its prefix and its fields."""

    model_config = SettingsConfigDict(frozen=True, hide_input_in_errors=True, extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    # Health, metrics and documentation are open here and ask for credentials on `port`; by default they are open there.
    internal_port: int | None = Field(default=None, ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"  # auto: console on a terminal, else JSON
    # After SIGTERM the listener stays open this long with /readyz at 503, so that a balancer can move on.
    drain_delay_s: float = Field(default=5.0, ge=0)
    # Then running requests and jobs have this long to finish.
    grace_period_s: float = Field(default=20.0, ge=0)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Values given in code, then variables, then files; nothing else."""
        return init_settings, env_settings, TextFiles(settings_cls)


class BadSettings(Exception):
    """One sentence for each variable that is wrong or missing; never the value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


S = TypeVar("S", bound=BaseSettings)


def load(settings_type: type[S]) -> S:
    """Build the settings from the environment, or print every wrong variable and end the process with 2."""
    try:
        return settings_type()
    except ValidationError as error:
        prefix = settings_type.model_config.get("env_prefix", "")
        problems = [f"{_variable(prefix, e['loc'])}: {e['msg']}" for e in error.errors(include_input=False)]
    except SettingsError as error:  # pydantic's wrapper around what a source raises
        if not isinstance(error.__cause__, BadSettings):
            raise
        problems = error.__cause__.problems
    print(f"{settings_type.__module__.split('.')[0]} cannot start:", file=sys.stderr)  # noqa: T201
    for problem in problems:
        print(f"  {problem}", file=sys.stderr)  # noqa: T201
    raise SystemExit(EXIT_BAD_SETTINGS)


def _variable(prefix: str, location: tuple[int | str, ...]) -> str:
    return prefix + "__".join(str(part) for part in location).upper()


def _is_text(field: FieldInfo) -> bool:
    return not {field.annotation, *get_args(field.annotation)}.isdisjoint({str, SecretStr})
