"""The first part of a store's check: what the store lists, beside what the rows refer to, both in the order of keys.

Objects without a row are orphans: of an upload that failed, or whose service died. Rows without an object are what
nobody ever wants to see.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from dms_worker.stored_objects import ObjectRow, any_object, doomed_among, objects_between
from nexarch.crypto.layout import NXO1, ObjectDamaged
from nexarch.db import Pool
from nexarch.storage import BucketNotFound, ObjectNotFound, Storage, StoredObject

OBJECTS_OF = "documents/"  # what all keys of revisions begin with; whatever else lies in the bucket is not ours
_LISTED = 500
_ROWS = 1000
_NOTHING_OF = "0/"  # no key begins so


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What was found between two keys."""

    last: str | None  # the key that it ends with; None: it is the last one
    objects: int
    orphans: Mapping[str, int | None]  # older than the age; key to the size of the plaintext, None: it can be none
    young: int
    missing: Sequence[str]
    wrong_size: Sequence[str]


async def stretches(
    storage: Storage, pool: Pool, tenant: str, *, after: str, older_than: datetime
) -> AsyncGenerator[Stretch, None]:
    """Compare listing and rows from the key behind `after` on, some hundred at a time.

    Holds no connection while the store answers. Raises BucketNotFound if the tenant has objects and no bucket: that is
    the fault of a setting or of a disk that is not mounted, and of no object.
    """
    compared = _Comparison(storage, pool, tenant, older_than)
    try:
        async with aclosing(storage.list_objects(tenant, prefix=OBJECTS_OF, after=after)) as listing:
            listed: list[StoredObject] = []
            while True:
                while len(listed) < _LISTED and (stored := await anext(listing, None)) is not None:
                    listed.append(stored)
                last = listed[-1].key if len(listed) == _LISTED else None
                async with pool.acquire() as conn:
                    rows = await objects_between(conn, after, last, _ROWS)
                if len(rows) == _ROWS:  # many are missing: the stretch ends where these rows do
                    last = rows[-1].storage_key
                within = [stored for stored in listed if last is None or stored.key <= last]
                listed = listed[len(within) :]
                yield await compared.stretch(last, within, rows)
                if last is None:
                    return
                after = last
    except BucketNotFound:
        async with pool.acquire() as conn:
            if await any_object(conn):
                raise
        yield Stretch(last=None, objects=0, orphans={}, young=0, missing=[], wrong_size=[])


async def is_missing(storage: Storage, tenant: str, key: str) -> bool:
    """Whether an object is not in the store; BucketNotFound if the whole bucket is not there."""
    try:
        await storage.head(tenant, key)
    except ObjectNotFound:
        async with aclosing(storage.list_objects(tenant, prefix=_NOTHING_OF)) as nothing:
            await anext(nothing, None)
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Comparison:
    storage: Storage
    pool: Pool
    tenant: str
    older_than: datetime

    async def stretch(self, last: str | None, listed: Sequence[StoredObject], rows: Sequence[ObjectRow]) -> Stretch:
        sizes = {stored.key: stored.size_bytes for stored in listed}
        keys = {row.storage_key for row in rows}
        unknown = await self._unknown([stored for stored in listed if stored.key not in keys])
        old = [stored for stored in unknown if stored.modified_at < self.older_than]
        return Stretch(
            last=last,
            objects=len(listed),
            orphans={stored.key: _plaintext_size(stored.size_bytes) for stored in old},
            young=len(unknown) - len(old),
            missing=[row.storage_key for row in rows if row.storage_key not in sizes and await self._gone(row)],
            wrong_size=[row.storage_key for row in rows if row.storage_key in sizes and not _fits(row, sizes)],
        )

    async def _unknown(self, strangers: Sequence[StoredObject]) -> list[StoredObject]:
        """Those that no purge will delete or has deleted since they were listed."""
        if not strangers:
            return []
        async with self.pool.acquire() as conn:
            doomed = await doomed_among(conn, [stored.key for stored in strangers])
        return [stored for stored in strangers if stored.key not in doomed and not await self._is_missing(stored.key)]

    async def _gone(self, row: ObjectRow) -> bool:
        """The object may have been put since the listing came by its key."""
        return await self._is_missing(row.storage_key)

    async def _is_missing(self, key: str) -> bool:
        return await is_missing(self.storage, self.tenant, key)


def _fits(row: ObjectRow, sizes: Mapping[str, int]) -> bool:
    return sizes[row.storage_key] == NXO1.object_size(row.size_bytes)


def _plaintext_size(object_size: int) -> int | None:
    try:
        return NXO1.plaintext_size(object_size)
    except ObjectDamaged:
        return None
