"""What every object store does: one bucket per tenant, keys made by the server, bytes as streams.

tests/shared/storage/test_conformance.py holds every driver to these sentences.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from nexarch.errors import Conflict, Invalid, NotFound, Unavailable

Chunk = bytes | bytearray | memoryview
Through = Callable[[memoryview], memoryview]  # `memoryview` itself changes nothing

# An allow-list, because stores differ on "..", "//" and the like: one refuses, one normalises, one takes it verbatim.
_COMPONENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_REVISION_KEY = re.compile(r"documents/([0-9a-f-]{36})/revisions/([0-9a-f-]{36})")
_MAX_KEY_LENGTH = 900  # S3 allows 1024 bytes; a driver may add a prefix of its own


class ObjectNotFound(NotFound):
    """There is no object under this key, or no bucket for this tenant."""

    code = "object-not-found"


class BucketNotFound(NotFound):
    """Something was put or listed before `ensure_bucket` made the tenant's bucket."""

    code = "bucket-not-found"


class ObjectExists(Conflict):
    """There is an object under this key already; an object is written once and never changes."""

    code = "object-exists"
    title = "There is an object under this key already"


class StorageAway(Unavailable):
    """The object store does not answer, or says that it cannot now; the same request may succeed later."""

    code = "storage-away"
    title = "The object store is away"


class StorageRefused(Unavailable):
    """The object store refuses us; the detail names the setting to look at. An operator must mend it."""

    code = "storage-refused"
    title = "The object store refuses this service"


class NoSignedUrl(Conflict):
    """The store has no addresses that a stranger could read an object under."""

    code = "no-signed-url"
    title = "The object store gives no addresses"


class UnsafeKey(Invalid):
    """A tenant or key has a form that could mean another place; the server makes keys, so this is a defect."""

    code = "unsafe-key"
    title = "This is no key of an object"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What a listing says of one object."""

    key: str
    size_bytes: int
    modified_at: datetime  # with zone: when it was put


Listing = AsyncGenerator[StoredObject, None]


class Storage(Protocol):
    """An object store. `tenant` is the tenant's slug, `key` some components parted by `/`, as `revision_key` makes it.

    A component has 1 to 100 letters, digits, `.`, `_` and `-`, no dot first; every method refuses others: UnsafeKey.
    Every method that asks a server may raise StorageAway and StorageRefused.
    """

    async def ensure_bucket(self, tenant: str) -> None:
        """Make the tenant's bucket unless it is there."""

    async def put(self, tenant: str, key: str, stream: AsyncIterator[Chunk]) -> int:
        """Store a stream as one object, durably, and return its size in bytes.

        The object is there as a whole or not at all, and never changes: of puts under one key the first that ends
        wins, the others raise ObjectExists. A chunk is used up before the next one is asked for, so its buffer may be
        used again. What the stream raises passes through and nothing is stored, nor where the caller is cancelled
        meanwhile. Raises BucketNotFound, and InsufficientStorage where the store is full.
        """

    def get(
        self, tenant: str, key: str, *, start: int = 0, stop: int | None = None, through: Through = memoryview
    ) -> AbstractAsyncContextManager[AsyncIterator[memoryview]]:
        """Open the bytes of an object from `start` up to but without `stop`, as a slice would take them.

        Use as `async with storage.get(...) as chunks`. A chunk is good until the next one is asked for: its buffer is
        used again. `through` gets each one as soon as it is read, in a thread, and what it returns is yielded instead;
        so work on it costs no further hop. Raises ObjectNotFound on entering. An object that is deleted meanwhile is
        read to its end, or breaks off with an error, as every read does that does not come to the end; it never ends
        short in silence.
        """

    async def head(self, tenant: str, key: str) -> int:
        """Return the size of an object in bytes; raise ObjectNotFound."""

    async def delete(self, tenant: str, key: str) -> None:
        """Remove an object, durably; raise ObjectNotFound."""

    def list_objects(self, tenant: str, *, prefix: str = "", after: str = "") -> Listing:
        """Yield the tenant's objects whose key begins with `prefix` and comes after `after`, in ascending order.

        Asks page by page, so a bucket of any size can be walked; what is put or deleted meanwhile may be there or not.
        Stores differ in the order of `a/1` and `a-b`; keys of one form are not affected. Raises BucketNotFound.
        """

    async def sweep_incomplete(self, tenant: str, before: datetime) -> int:
        """Remove what puts have left that never ended, as a killed process does; return how many.

        Only what was begun before that time: let it be longer ago than any put takes. Raises BucketNotFound.
        """

    async def signed_url(self, tenant: str, key: str, *, ttl_s: int) -> str:
        """Return an address under which everybody may GET the object, sealed as it is, for 1 second to 7 days.

        It is a secret: not to be logged. Raises NoSignedUrl where the store has none; does not ask whether the object
        is there.
        """


def revision_key(document_id: UUID, revision_id: UUID) -> str:
    """Return the key of the object that holds one revision of a document."""
    return f"documents/{document_id}/revisions/{revision_id}"


def ids_in_key(key: str) -> tuple[UUID, UUID]:
    """Return the document and the revision that `revision_key` made a key of; ValueError for another key."""
    match = _REVISION_KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"{key!r} is not the key of a revision's object")
    return UUID(match[1]), UUID(match[2])


def split_key(tenant: str, key: str) -> list[str]:
    """Return the components of a key; raise UnsafeKey where a tenant or component could name another place."""
    components = key.split("/")
    for component in (tenant, *components):
        if not _COMPONENT.fullmatch(component):
            raise UnsafeKey(f"{component!r} is not allowed in the place of an object.")
    if len(key) > _MAX_KEY_LENGTH:
        raise UnsafeKey(f"A key has at most {_MAX_KEY_LENGTH} characters.")
    return components
