"""Which object store, and how it is reached: the same for every module that reads or writes documents."""

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field, FilePath, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

_NEEDED = {"storage_dir": "local", "storage_access_key": "s3", "storage_secret_key": "s3", "storage_bucket": "s3"}
_BUCKET = r"^([a-z0-9]|\{tenant\})([a-z0-9.-]|\{tenant\})*([a-z0-9]|\{tenant\})$"


class StorageSettings(BaseSettings):
    """A part of a service's settings; each field is a variable with the prefix of the service."""

    storage_driver: Literal["local", "s3"] = "local"
    # local: the base folder, made if it is missing; shared by the hosts of all modules.
    storage_dir: Path | None = Field(default=None, validate_default=True)
    # s3: the server; without it Amazon's own of the region.
    storage_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")
    storage_region: str = "us-east-1"
    storage_access_key: str | None = Field(default=None, validate_default=True)
    storage_secret_key: SecretStr | None = Field(default=None, validate_default=True)
    # `nexarch-{tenant}`: a bucket for each tenant, made when it is needed; `nexarch`: one for all, a prefix for each.
    storage_bucket: str | None = Field(default=None, pattern=_BUCKET, validate_default=True)
    storage_addressing: Literal["path", "virtual", "auto"] = "path"  # where the bucket's name stands in the URL
    storage_ca: FilePath | None = None  # a file of certificates to trust instead of the usual ones

    @field_validator(*_NEEDED)
    @classmethod
    def _needed_by_the_driver(cls, value: object, info: ValidationInfo) -> object:
        driver = info.data.get("storage_driver")
        if value is None and info.field_name is not None and _NEEDED[info.field_name] == driver:
            raise ValueError(f"is needed where STORAGE_DRIVER is {driver}")
        return value

    def fingerprints(self) -> dict[str, str]:
        """Of each setting that says where the objects lie, by its name; nothing can be read out of them."""
        values: dict[str, object] = {"STORAGE_DRIVER": self.storage_driver}
        if self.storage_driver == "local":
            values["STORAGE_DIR"] = self.storage_dir
        else:
            values |= {"STORAGE_ENDPOINT": self.storage_endpoint, "STORAGE_BUCKET": self.storage_bucket}
        return {name: _fingerprint(name, str(value)) for name, value in values.items()}


def _fingerprint(name: str, value: str) -> str:
    return hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:16]
