"""One put to S3: a stream of unknown length, in one request where it is short, else in parts; whole or not at all."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog
from botocore.exceptions import ClientError

from nexarch.errors import NexarchError
from nexarch.finishing import to_its_end
from nexarch.storage.contract import Chunk, ObjectExists
from nexarch.storage.s3_errors import S3_ERRORS, error_code, is_unsupported, translate
from nexarch.storage.s3_parts import Part
from nexarch.threads import run_in_thread

log = structlog.get_logger(__name__)

S3Client: TypeAlias = Any  # aiobotocore makes the methods of its clients at run time
Answer: TypeAlias = dict[str, Any]

CALL_TIMEOUT_S = 60.0  # of a call, all its attempts included; a long body has longer
_SLOWEST_LINE = 64 << 10  # bytes a second
_IN_FLIGHT = 2  # parts on their way while the next one fills
_MARK = "put"  # in the metadata of an object: which put has made it
# When an answer is lost, the call is made again: the object that is there then may be our own.
_TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict"}
_PERHAPS_DONE = {*_TAKEN, "NoSuchUpload"}


@dataclass(slots=True)
class Dialect:
    """What the server understands, learned from its answers; one for the life of a client."""

    is_old: bool = False  # no If-None-Match on a put, no SHA-256 of a body


class Put:
    """Sends one stream; use once."""

    def __init__(self, client: S3Client, dialect: Dialect, tenant: str, bucket: str, key: str) -> None:
        self._client = client
        self._dialect = dialect
        self._tenant = tenant
        self._place = {"Bucket": bucket, "Key": key}
        self._mark = secrets.token_hex(16)
        self._upload_id: str | None = None
        self._with_checksums = False
        self._parts: set[Part] = set()
        self._sending: deque[asyncio.Task[Answer]] = deque()
        self._sent: list[Answer] = []

    async def send(self, stream: AsyncIterator[Chunk]) -> int:
        """See `Storage.put`."""
        part, size = self._new_part(1), 0
        try:
            async for chunk in stream:
                rest = memoryview(chunk).cast("B")
                while rest:
                    if part.is_full:
                        await self._begin(part)
                        part = self._new_part(part.number + 1)
                    taken = await run_in_thread(part.write, rest)
                    size += taken
                    rest = rest[taken:]
            if self._upload_id is None:
                await self._put_whole(part)
            else:
                await self._begin(part)
                await self._sent_all_but(0)
                await to_its_end(asyncio.create_task(self._complete()))
        except BaseException:
            await to_its_end(asyncio.create_task(self._abort()))
            raise
        finally:
            for left in self._parts:
                left.close()
        return size

    def _new_part(self, number: int) -> Part:
        part = Part(number)
        self._parts.add(part)
        return part

    async def _put_whole(self, part: Part) -> None:
        body = part.rewind()
        newer = {"IfNoneMatch": "*", "ChecksumSHA256": part.sha256}
        await self._store(self._client.put_object, newer, Body=body, Metadata={_MARK: self._mark})

    async def _begin(self, part: Part) -> None:
        """Begin to send a part; waits while too many are on their way."""
        if self._upload_id is None:
            # To its end: an upload of which we do not know the name could not be aborted.
            await to_its_end(asyncio.create_task(self._open()))
        await self._sent_all_but(_IN_FLIGHT - 1)
        self._sending.append(asyncio.create_task(self._send(part), name=f"part {part.number}"))

    async def _open(self) -> None:
        create = self._client.create_multipart_upload
        try:
            answer = await self._ask(create, {"ChecksumAlgorithm": "SHA256"}, Metadata={_MARK: self._mark})
        except S3_ERRORS as error:
            raise self._translated(error) from error
        self._upload_id = answer["UploadId"]
        # A server that does not know checksums passes over the wish and says nothing of it.
        self._with_checksums = answer.get("ChecksumAlgorithm") == "SHA256"

    async def _send(self, part: Part) -> Answer:
        checksum = {"ChecksumSHA256": part.sha256} if self._with_checksums else {}
        which: Answer = {"UploadId": self._upload_id, "PartNumber": part.number}
        timeout_s = CALL_TIMEOUT_S + part.size / _SLOWEST_LINE
        try:
            answer = await self._ask(
                self._client.upload_part, checksum, timeout_s=timeout_s, **which, Body=part.rewind()
            )
        except S3_ERRORS as error:
            raise self._translated(error) from error
        self._parts.discard(part)
        part.close()
        return {"PartNumber": part.number, "ETag": answer["ETag"]} | checksum

    async def _sent_all_but(self, on_their_way: int) -> None:
        while len(self._sending) > on_their_way:
            self._sent.append(await self._sending.popleft())

    async def _complete(self) -> None:
        parts = {"Parts": self._sent}
        complete = self._client.complete_multipart_upload
        await self._store(complete, {"IfNoneMatch": "*"}, UploadId=self._upload_id, MultipartUpload=parts)
        self._upload_id = None

    async def _abort(self) -> None:
        """Leave nothing of the upload; what the server does not let us remove now, `sweep_incomplete` finds."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        if self._upload_id is None:
            return
        try:
            await self._ask(self._client.abort_multipart_upload, {}, UploadId=self._upload_id)
        except S3_ERRORS as error:
            log.warning("multipart upload left behind", tenant=self._tenant, reason=self._translated(error).detail)

    async def _store(self, method: Callable[..., Awaitable[Answer]], newer: Answer, **arguments: Any) -> None:  # noqa: ANN401 - see _ask
        """Make the call after which the object is there; ObjectExists only if another put has made it."""
        try:
            await self._ask(method, newer, **arguments)
        except ClientError as error:
            code = error_code(error)
            maker = await self._maker() if code in _PERHAPS_DONE else None
            if maker == self._mark:
                return
            if maker is not None and code in _TAKEN:
                raise ObjectExists("There is an object under this key already.") from error
            raise self._translated(error) from error
        except S3_ERRORS as error:
            raise self._translated(error) from error

    async def _maker(self) -> str | None:
        """The mark of the put that has made the object; None where there is no object, empty where it bears no mark."""
        try:
            answer = await self._ask(self._client.head_object, {})
        except S3_ERRORS:
            return None  # the error that brought us here tells more
        return str(answer["Metadata"].get(_MARK, ""))

    async def _ask(
        self,
        method: Callable[..., Awaitable[Answer]],
        newer: Answer,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        **arguments: Any,  # noqa: ANN401 - whatever the operation takes
    ) -> Answer:
        """Make a call with the arguments that only newer servers know, or without where this one does not."""
        async with asyncio.timeout(timeout_s):
            if newer and not self._dialect.is_old:
                try:
                    return await method(**self._place, **arguments, **newer)
                except ClientError as error:
                    if not is_unsupported(error):
                        raise
                self._dialect.is_old = True
                log.warning("the object store knows neither conditions nor checksums; it is used without")
                if "Body" in arguments:
                    arguments["Body"].seek(0)
            return await method(**self._place, **arguments)

    def _translated(self, error: Exception) -> NexarchError:
        return translate(error, self._tenant, self._place["Key"])
