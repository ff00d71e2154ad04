"""The settings of dms-ingest."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from nexarch.settings import Networks
from nexarch.tenant_module import TenantModuleSettings

GIB = 1 << 30

_LINK_KEY_LENGTH = 32

# What offices file. Not among them: what runs where it is opened (HTML, SVG, macros, archives of Java).
_DEFAULT_TYPES = (
    "application/epub+zip",
    "application/msword",
    "application/octet-stream",
    "application/pdf",
    "application/rtf",
    "application/vnd.ms-excel",
    "application/vnd.ms-outlook",
    "application/vnd.ms-powerpoint",
    "application/vnd.oasis.opendocument.presentation",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/x-ole-storage",
    "application/zip",
    "image/bmp",
    "image/gif",
    "image/heic",
    "image/jpeg",
    "image/png",
    "image/tiff",
    "image/webp",
    "message/rfc822",
    "text/csv",
    "text/markdown",
    "text/plain",
    "text/xml",
)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@,\s]+")


def _link_keys(value: SecretStr) -> SecretStr:
    keys = value.get_secret_value().split()
    if not keys or any(len(key) < _LINK_KEY_LENGTH for key in keys):
        raise ValueError(f"each key must have at least {_LINK_KEY_LENGTH} characters: openssl rand -base64 32")
    return value


class Settings(TenantModuleSettings):
    """Read once, in `__main__`; a wrong or missing variable stops the process with its name."""

    model_config = SettingsConfigDict(env_prefix="DMS_INGEST_", frozen=True, hide_input_in_errors=True, extra="ignore")

    port: int = Field(default=8090, ge=0, le=65535)
    staging_dir: Path  # bytes of uploads until they are complete; on a disk of its own if it may fill up
    # So many bytes of whole slots may wait in the page cache, in each process; else a 16th of the memory available.
    staging_cache_bytes: int | None = Field(default=None, ge=0)
    # Signs links that work without a token. Several, with white space or line ends between: the first signs, all are
    # known, so that one can be replaced without breaking the links that are out.
    link_key: Annotated[SecretStr, AfterValidator(_link_keys)]
    max_upload_bytes: int = Field(default=20 * GIB, ge=1)
    # Comma-separated. The bytes are looked at too: what contradicts its type is refused at complete.
    allowed_types: Annotated[frozenset[str], NoDecode] = frozenset(_DEFAULT_TYPES)
    upload_lifetime_s: float = Field(default=7 * 86400, gt=0)  # of an upload that receives nothing
    # A line that is silent for so long is broken; what arrived on it is kept.
    upload_idle_s: float = Field(default=60.0, gt=0)
    # Requests that bring or fetch bytes of files at once: so many fit into 512 MiB of memory, however slow they are.
    max_uploads: int = Field(default=100, ge=1)
    max_downloads: int = Field(default=100, ge=1)
    download_idle_s: float = Field(default=120.0, gt=0)  # whoever takes nothing for so long is broken off
    trusted_proxies: Networks = ()  # of a request that comes from one, X-Forwarded-For says whose it is
    # The host of the proxy right before this service, believed in the same way whatever addresses its name has.
    front: str | None = Field(default=None, min_length=1)
    # Comma-separated: whose pages may call us from a browser, as https://app.example.org; * for all.
    cors_origins: Annotated[frozenset[str], NoDecode] = frozenset()

    @field_validator("allowed_types", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return frozenset(part for piece in value.split(",") if (part := piece.strip().lower()))
        return value

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: frozenset[str]) -> frozenset[str]:
        for origin in value:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin} is not an origin: scheme://host or scheme://host:port")
        return value
