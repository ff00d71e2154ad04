"""Object stores on S3 servers for tests: settings, and buckets of a test's own."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import SecretStr

from nexarch.storage import StorageSettings, open_storage
from nexarch.storage.s3 import S3Storage
from support.closed_lines import until_sent
from support.objects import TENANT
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


@asynccontextmanager
async def opened(variables: dict[str, Any], **changes: object) -> AsyncIterator[S3Storage]:
    """The store they lead to; a change of `secret_key` is one of `storage_secret_key`."""
    changed = {f"storage_{name}": value for name, value in changes.items()}
    async with open_storage(StorageSettings(**variables | changed)) as store:
        assert isinstance(store, S3Storage)
        yield store
    await until_sent()  # a part that was cancelled leaves some


async def open_uploads(storage: S3Storage) -> list[Any]:
    """The multipart uploads to TENANT's bucket that were begun and neither completed nor aborted."""
    answer = await storage._client.list_multipart_uploads(Bucket=storage._buckets.bucket(TENANT))
    return list(answer.get("Uploads", ()))


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
