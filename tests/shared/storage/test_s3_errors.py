import aiohttp
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, SSLError

from nexarch.errors import InsufficientStorage, NexarchError
from nexarch.storage import BucketNotFound, ObjectExists, ObjectNotFound, StorageAway, StorageRefused
from nexarch.storage.s3_errors import translate


def answered(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


@pytest.mark.parametrize(
    ("error", "ours", "says"),
    [
        (answered("NoSuchKey", 404), ObjectNotFound, "'1'"),
        (answered("404", 404), ObjectNotFound, "'1'"),
        (answered("NoSuchBucket", 404), BucketNotFound, "acme"),
        (answered("PreconditionFailed", 412), ObjectExists, "'1'"),
        (answered("InsufficientStorage", 507), InsufficientStorage, "full"),
        (answered("Whatever", 507), InsufficientStorage, "full"),
        (answered("XMinioStorageFull", 500), InsufficientStorage, "full"),
        (answered("SignatureDoesNotMatch", 403), StorageRefused, "STORAGE_SECRET_KEY"),
        (answered("InvalidAccessKeyId", 403), StorageRefused, "STORAGE_ACCESS_KEY"),
        (answered("AccessDenied", 403), StorageRefused, "STORAGE_BUCKET"),
        (answered("403", 403), StorageRefused, "STORAGE_SECRET_KEY"),
        (answered("RequestTimeTooSkewed", 403), StorageRefused, "clocks"),
        (answered("AuthorizationHeaderMalformed", 400), StorageRefused, "STORAGE_REGION"),
        (answered("Strange", 400), StorageRefused, "Strange"),
        (answered("SlowDown", 503), StorageAway, "SlowDown"),
        (answered("InternalError", 500), StorageAway, "InternalError"),
        (EndpointConnectionError(endpoint_url="http://nowhere"), StorageAway, "STORAGE_ENDPOINT"),
        (SSLError(endpoint_url="https://nowhere", error="self-signed"), StorageRefused, "STORAGE_CA"),
        (aiohttp.ClientPayloadError("cut"), StorageAway, "STORAGE_ENDPOINT"),
        (TimeoutError(), StorageAway, "STORAGE_ENDPOINT"),
    ],
)
def test_an_error_says_what_an_operator_or_a_client_can_do(
    error: Exception, ours: type[NexarchError], says: str
) -> None:
    translated = translate(error, "acme", "documents/0/revisions/1")

    assert type(translated) is ours
    assert says in translated.detail
