"""core-api's settings."""

import base64
import binascii
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from nexarch.crypto.envelope import KEY_LENGTH
from nexarch.settings import Networks, ServiceSettings
from nexarch.user_tokens import AUDIENCE, ISSUER

_POSTGRES_PORT = 5432


def _dsn(value: SecretStr) -> SecretStr:
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in {"postgres", "postgresql"} or not parts.hostname or not parts.username or not parts.path[1:]:
        raise ValueError("must be postgresql://user:password@host:port/database")
    return value


def _master_key(value: SecretStr) -> SecretStr:
    try:
        keys = [base64.b64decode(key, validate=True) for key in value.get_secret_value().split()]
    except (binascii.Error, ValueError):
        keys = []
    if {len(key) for key in keys} != {KEY_LENGTH}:
        raise ValueError(f"must be the base64 of {KEY_LENGTH} random bytes: openssl rand -base64 {KEY_LENGTH}")
    return value


class Settings(ServiceSettings):
    """Read once, in `__main__`; a wrong or missing variable stops the process with its name."""

    model_config = SettingsConfigDict(env_prefix="CORE_API_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=8080, ge=0, le=65535)
    # The registry database as its owner, nexarch_core, who owns the tenant databases on that server too.
    registry_dsn: Annotated[SecretStr, AfterValidator(_dsn)]
    # Seals tenants' keys and passwords and the keys that sign user tokens. Lost, and they are lost. Several, with white
    # space or line ends between: the first seals, all open, so that one can be replaced (docs/keys.md).
    master_key: Annotated[SecretStr, AfterValidator(_master_key)]
    # Where modules reach the tenant databases, if that is not the address that core-api itself uses.
    tenant_database_host: str | None = Field(default=None, min_length=1)
    tenant_database_port: int | None = Field(default=None, ge=1, le=65535)
    token_issuer: str = Field(default=ISSUER, min_length=1)
    token_audience: str = Field(default=AUDIENCE, min_length=1)
    token_ttl_s: int = Field(default=900, ge=10, le=86400)
    # Of a request that comes from one, X-Forwarded-For says whose it is: else all behind it share one limit on wrong
    # credentials.
    trusted_proxies: Networks = ()

    @property
    def tenant_database(self) -> tuple[str, int]:
        """Host and port that modules are told."""
        parts = urlsplit(self.registry_dsn.get_secret_value())
        host = self.tenant_database_host or parts.hostname or ""
        return host, self.tenant_database_port or parts.port or _POSTGRES_PORT
