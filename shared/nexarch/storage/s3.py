"""The object store on an S3 server: Amazon's, SeaweedFS, MinIO, Ceph and others.

Bodies are not signed but carry a signed SHA-256 where the server knows it, which is computed in a thread; what is in
them is sealed anyway. Every call has a time limit, all its attempts included.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import ClientError

from nexarch.storage.contract import (
    BucketNotFound,
    Chunk,
    Listing,
    ObjectExists,
    ObjectNotFound,
    StoredObject,
    Through,
    split_key,
)
from nexarch.storage.s3_buckets import MARKER, Buckets
from nexarch.storage.s3_errors import S3_ERRORS, error_code, translate
from nexarch.storage.s3_put import CALL_TIMEOUT_S, Answer, Dialect, Put, S3Client
from nexarch.storage.settings import StorageSettings
from nexarch.threads import run_in_thread

READ_SIZE = 1 << 20
MOST_CONNECTIONS = 64  # each download and each part on its way holds one
LONGEST_URL_S = 7 * 86400  # Amazon's limit
_CONNECT_TIMEOUT_S = 5.0
_SILENCE_S = 30.0  # without a byte from the server
_ATTEMPTS = 4
_UNNAMED_REGION = "us-east-1"  # the only one that must not be named when a bucket is made

Body: TypeAlias = Any  # aiobotocore's stream of bytes


@asynccontextmanager
async def open_s3(settings: StorageSettings) -> AsyncIterator["S3Storage"]:
    """Open a client; its connections are made when they are needed."""
    assert settings.storage_secret_key is not None  # the settings see to it
    assert settings.storage_bucket is not None
    # At level debug botocore logs every request with its headers and signature.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    logging.getLogger("aiobotocore").setLevel(logging.WARNING)
    config = AioConfig(
        signature_version="s3v4",
        s3={"addressing_style": settings.storage_addressing, "payload_signing_enabled": False},
        # We send our own where the server knows it: the newer default breaks servers that do not.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_SILENCE_S,
        max_pool_connections=MOST_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    async with _session().create_client(
        "s3",
        endpoint_url=settings.storage_endpoint,
        region_name=settings.storage_region,
        aws_access_key_id=settings.storage_access_key,
        aws_secret_access_key=settings.storage_secret_key.get_secret_value(),
        verify=None if settings.storage_ca is None else str(settings.storage_ca),
        config=config,
    ) as client:
        yield S3Storage(client, settings.storage_region, settings.storage_bucket)


@cache
def _session() -> AioSession:
    """One for a process: it keeps the descriptions of S3's operations, which take a fifth of a second to read."""
    return get_session()


class S3Storage:
    """Implements `nexarch.storage.Storage` on an open client."""

    def __init__(self, client: S3Client, region: str, bucket: str) -> None:
        self._client = client
        self._region = region
        self._buckets = Buckets(bucket)
        self._dialect = Dialect()
        self._known: set[str] = set()  # tenants whose bucket has been seen

    async def ensure_bucket(self, tenant: str) -> None:
        """See `Storage`."""
        split_key(tenant, "any")
        if tenant in self._known:
            return
        bucket = self._buckets.bucket(tenant)
        try:
            # Unlike HEAD, this says why it is refused.
            await _ask(self._client.list_objects_v2(Bucket=bucket, MaxKeys=1), tenant)
        except BucketNotFound:
            await self._make_bucket(bucket, tenant)
        if self._buckets.is_shared:
            marker = self._buckets.prefix(tenant) + MARKER
            with suppress(ObjectExists):
                await Put(self._client, self._dialect, tenant, bucket, marker).send(_nothing())
        self._known.add(tenant)

    async def put(self, tenant: str, key: str, stream: AsyncIterator[Chunk]) -> int:
        """See `Storage`."""
        bucket, name = self._place(tenant, key)
        await self._require_marker(tenant)
        try:
            return await Put(self._client, self._dialect, tenant, bucket, name).send(stream)
        except BucketNotFound:
            self._known.discard(tenant)
            raise

    @asynccontextmanager
    async def get(
        self, tenant: str, key: str, *, start: int = 0, stop: int | None = None, through: Through = memoryview
    ) -> AsyncIterator[AsyncIterator[memoryview]]:
        """See `Storage`."""
        if start < 0 or (stop is not None and stop < start):
            raise ValueError(f"Bytes {start} to {stop} are not a range.")
        bucket, name = self._place(tenant, key)
        async with AsyncExitStack() as closing:
            body = await self._open(tenant, bucket, name, start, stop)
            if body is not None:
                # Read to its end or closed: else its connection is never free again.
                await closing.enter_async_context(body)
            yield await closing.enter_async_context(aclosing(_read(body, tenant, name, through)))

    async def head(self, tenant: str, key: str) -> int:
        """See `Storage`."""
        bucket, name = self._place(tenant, key)
        answer = await _ask(self._client.head_object(Bucket=bucket, Key=name), tenant, name)
        return int(answer["ContentLength"])

    async def delete(self, tenant: str, key: str) -> None:
        """See `Storage`; asks for the object first, since S3 does not tell whether there was one."""
        bucket, name = self._place(tenant, key)
        await self.head(tenant, key)
        await _ask(self._client.delete_object(Bucket=bucket, Key=name), tenant, name)

    async def list_objects(self, tenant: str, *, prefix: str = "", after: str = "") -> Listing:
        """See `Storage`."""
        place = await self._listed_place(tenant, prefix)
        own = self._buckets.prefix(tenant)
        position = {"StartAfter": own + after} if after else {}
        while True:
            page = await _ask(self._client.list_objects_v2(**place, **position), tenant)
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix(own)
                if not key.startswith("."):
                    yield StoredObject(key=key, size_bytes=entry["Size"], modified_at=entry["LastModified"])
            if not page["IsTruncated"]:
                return
            position = {"ContinuationToken": page["NextContinuationToken"]}

    async def sweep_incomplete(self, tenant: str, before: datetime) -> int:
        """See `Storage`; what is left are multipart uploads, which are paid for and which no listing shows."""
        place = await self._listed_place(tenant)
        swept = 0
        position: dict[str, str] = {}
        while True:
            page = await _ask(self._client.list_multipart_uploads(**place, **position), tenant)
            for upload in page.get("Uploads", ()):
                if upload["Initiated"] < before:
                    await self._abort(tenant, upload["Key"], upload["UploadId"])
                    swept += 1
            if not page["IsTruncated"]:
                return swept
            position = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    async def signed_url(self, tenant: str, key: str, *, ttl_s: int) -> str:
        """See `Storage`."""
        if not 1 <= ttl_s <= LONGEST_URL_S:
            raise ValueError(f"An address lives 1 to {LONGEST_URL_S} seconds.")
        bucket, name = self._place(tenant, key)
        place = {"Bucket": bucket, "Key": name}
        url: str = await self._client.generate_presigned_url("get_object", Params=place, ExpiresIn=ttl_s)
        return url

    def _place(self, tenant: str, key: str) -> tuple[str, str]:
        """The bucket and the key in it."""
        split_key(tenant, key)
        return self._buckets.bucket(tenant), self._buckets.prefix(tenant) + key

    async def _listed_place(self, tenant: str, prefix: str = "") -> dict[str, str]:
        split_key(tenant, "any")
        await self._require_marker(tenant)
        return {"Bucket": self._buckets.bucket(tenant), "Prefix": self._buckets.prefix(tenant) + prefix}

    async def _make_bucket(self, bucket: str, tenant: str) -> None:
        where = {} if self._region == _UNNAMED_REGION else {"LocationConstraint": self._region}
        options = {"CreateBucketConfiguration": where} if where else {}
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._client.create_bucket(Bucket=bucket, **options)
        except S3_ERRORS as error:
            if not (isinstance(error, ClientError) and error_code(error) == "BucketAlreadyOwnedByYou"):
                raise translate(error, tenant) from error

    async def _require_marker(self, tenant: str) -> None:
        """In a bucket for all tenants: raise BucketNotFound unless the tenant has its place there."""
        if not self._buckets.is_shared or tenant in self._known:
            return
        marker = self._buckets.prefix(tenant) + MARKER
        try:
            await _ask(self._client.head_object(Bucket=self._buckets.bucket(tenant), Key=marker), tenant, marker)
        except ObjectNotFound as error:
            raise BucketNotFound(f"The tenant {tenant!r} has no bucket yet.") from error
        self._known.add(tenant)

    async def _open(self, tenant: str, bucket: str, name: str, start: int, stop: int | None) -> Body | None:
        """Ask for a range; None where it has no bytes, which HTTP has no words for."""
        if start == stop:
            await _ask(self._client.head_object(Bucket=bucket, Key=name), tenant, name)
            return None
        span = {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"} if start or stop else {}
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await self._client.get_object(Bucket=bucket, Key=name, **span)
        except S3_ERRORS as error:
            if isinstance(error, ClientError) and error_code(error) == "InvalidRange":
                return None  # it begins at the end of the object or beyond
            translated = translate(error, tenant, name)
            if isinstance(translated, BucketNotFound):
                raise ObjectNotFound(translated.detail) from error
            raise translated from error
        return answer["Body"]

    async def _abort(self, tenant: str, name: str, upload_id: str) -> None:
        place = {"Bucket": self._buckets.bucket(tenant), "Key": name}
        with suppress(ObjectNotFound):  # its put has ended it meanwhile
            await _ask(self._client.abort_multipart_upload(**place, UploadId=upload_id), tenant, name)


async def _ask(call: Awaitable[Answer], tenant: str, name: str = "") -> Answer:
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await call
    except S3_ERRORS as error:
        raise translate(error, tenant, name) from error


async def _read(body: Body | None, tenant: str, name: str, through: Through) -> AsyncGenerator[memoryview, None]:
    """Yield what comes, as `through` makes it; a body that ends before its length is an error of the line."""
    while body is not None:
        try:
            chunk = await body.read(READ_SIZE)
        except S3_ERRORS as error:
            raise translate(error, tenant, name) from error
        if not chunk:
            return
        yield await run_in_thread(through, memoryview(chunk))


async def _nothing() -> AsyncIterator[Chunk]:
    """The stream of an object without bytes."""
    nothing: tuple[Chunk, ...] = ()
    for chunk in nothing:
        yield chunk
