"""Object stores on S3 servers for tests: settings, and buckets of a test's own."""

import os
import secrets
from typing import Any

from pydantic import SecretStr

from nexarch.storage import StorageSettings
from support.seaweedfs import S3Server

_GIVEN = "NEXARCH_TEST_S3_"


def s3_settings(server: S3Server, **changes: object) -> StorageSettings:
    """Settings for buckets of this test's own on a server."""
    return StorageSettings(**s3_variables(server) | changes)


def s3_variables(server: S3Server) -> dict[str, Any]:
    """The same, for the settings of a service."""
    return {
        "storage_driver": "s3",
        "storage_endpoint": server.url,
        "storage_access_key": server.access_key,
        "storage_secret_key": SecretStr(server.secret_key),
        "storage_bucket": own_bucket(),
    }


def own_bucket() -> str:
    """A STORAGE_BUCKET that no other test has."""
    return f"t{secrets.token_hex(6)}-{{tenant}}"


def is_server_given() -> bool:
    """Whether the tests shall run on a server of somebody's too."""
    return _GIVEN + "ENDPOINT" in os.environ


def given_settings() -> StorageSettings:
    """A store on the server that NEXARCH_TEST_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY name, and _REGION perhaps.

    The buckets that the tests make there stay.
    """
    return StorageSettings(
        storage_driver="s3",
        storage_endpoint=os.environ[_GIVEN + "ENDPOINT"],
        storage_region=os.environ.get(_GIVEN + "REGION", "us-east-1"),
        storage_access_key=os.environ[_GIVEN + "ACCESS_KEY"],
        storage_secret_key=SecretStr(os.environ[_GIVEN + "SECRET_KEY"]),
        storage_bucket=own_bucket(),
    )
