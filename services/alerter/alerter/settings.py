"""The alerter's settings."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nexarch.module import ModuleSettings


class Settings(ModuleSettings):
    """Read once, in `__main__`; a wrong or missing variable stops the process with its name."""

    model_config = SettingsConfigDict(env_prefix="ALERTER_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=8092, ge=0, le=65535)
