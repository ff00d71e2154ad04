"""What the errors of an S3 server and of the way to it mean to us: one of the storage's errors, never a secret."""

from typing import Any

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError, SSLError

from nexarch.errors import InsufficientStorage, NexarchError
from nexarch.storage.contract import BucketNotFound, ObjectExists, ObjectNotFound, StorageAway, StorageRefused

# What a call may raise: the server's answer, botocore's own errors, and aiohttp's, which escape it in places.
S3_ERRORS = (ClientError, BotoCoreError, aiohttp.ClientError, OSError, TimeoutError)

_AGAIN_S = 5
_SERVER_ERROR = 500
_INSUFFICIENT_STORAGE = 507

# Codes beside the status 507; "XMinio..." are MinIO's.
_FULL = {"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage"}
_AGAIN = {"SlowDown", "TooManyRequests", "RequestTimeout", "ThrottlingException", "ConditionalRequestConflict"}
_NOT_SUPPORTED = {"NotImplemented", "501"}
_SETTINGS = {
    "SignatureDoesNotMatch": "STORAGE_SECRET_KEY is not the secret of STORAGE_ACCESS_KEY",
    "InvalidAccessKeyId": "it does not know STORAGE_ACCESS_KEY",
    "AccessDenied": "STORAGE_ACCESS_KEY lacks a right on the bucket that STORAGE_BUCKET names",
    "AllAccessDisabled": "STORAGE_ACCESS_KEY lacks a right on the bucket that STORAGE_BUCKET names",
    # The answer to HEAD has no body, so no code either.
    "403": "STORAGE_ACCESS_KEY, STORAGE_SECRET_KEY or a right on the bucket that STORAGE_BUCKET names",
    "RequestTimeTooSkewed": "the clocks of this host and of the store differ by more than some minutes",
    "AuthorizationHeaderMalformed": "STORAGE_REGION is not its region",
    "IllegalLocationConstraintException": "STORAGE_REGION is not its region",
    "PermanentRedirect": "STORAGE_ENDPOINT or STORAGE_REGION is not that of the bucket",
    "301": "STORAGE_ENDPOINT or STORAGE_REGION is not that of the bucket",
    "InvalidBucketName": "STORAGE_BUCKET makes no name of a bucket for this tenant",
    "BucketAlreadyExists": "the bucket that STORAGE_BUCKET names belongs to somebody else",
    "TooManyBuckets": "it makes no more buckets; name one for all tenants in STORAGE_BUCKET",
}


def translate(error: Exception, tenant: str, key: str = "") -> NexarchError:
    """Return our error for one of S3_ERRORS that a call about this object, or this bucket, has raised."""
    if isinstance(error, SSLError):
        return StorageRefused("The certificate of the object store is not trusted: look at STORAGE_CA.")
    if not isinstance(error, ClientError):
        return StorageAway(
            f"The object store at STORAGE_ENDPOINT does not answer ({type(error).__name__}).", retry_after_s=_AGAIN_S
        )
    code, status = error_code(error), _status(error)
    if code in {"NoSuchKey", "NoSuchUpload", "404"}:
        return ObjectNotFound(f"There is no object {key.rpartition('/')[2]!r} in the store.")
    if code == "NoSuchBucket":
        return BucketNotFound(f"The tenant {tenant!r} has no bucket yet.")
    if code in {"PreconditionFailed", "412"}:
        return ObjectExists(f"There is an object {key.rpartition('/')[2]!r} already.")
    if status == _INSUFFICIENT_STORAGE or code in _FULL:
        return InsufficientStorage("The object store is full; nothing was stored.")
    if code in _SETTINGS:
        return StorageRefused(f"The object store refuses us: {_SETTINGS[code]}.")
    if status >= _SERVER_ERROR or code in _AGAIN:
        return StorageAway(f"The object store cannot answer now ({code}).", retry_after_s=_AGAIN_S)
    return StorageRefused(f"The object store refuses us: {code}, status {status}.")


def error_code(error: ClientError) -> str:
    """The server's code; its status where it gave none, as with HEAD."""
    answer: dict[str, Any] = error.response
    return str(answer.get("Error", {}).get("Code", "")) or str(_status(error))


def is_unsupported(error: ClientError) -> bool:
    """Whether the server does not know something that a request asked for."""
    return error_code(error) in _NOT_SUPPORTED


def _status(error: ClientError) -> int:
    answer: dict[str, Any] = error.response
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
