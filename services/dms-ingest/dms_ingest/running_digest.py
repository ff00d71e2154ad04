"""The SHA-256 of an upload, taken while its bytes come, so that complete need not read them for it.

A digest says what came; complete seals what lies on the disk. That both are the same is proved by a trail: a hash over
the nonces of the slots' seals, in order. Every change of a slot, by whatever process, gives it a new nonce, and a slot
that opens with a nonce holds what was sealed with it. So equal trails mean equal bytes.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from dms_ingest.lanes import Lane

_MOST_SESSIONS = 1024  # about 1 KiB each


@dataclass(frozen=True, slots=True)
class Sealed:
    """A slot was sealed under `nonce`; what had lain in its place and became part of it, under `before`."""

    number: int
    nonce: bytes
    before: bytes | None


class Trail:
    """The seals that were met from slot 0 on, one for each slot."""

    def __init__(self) -> None:
        self._nonces = hashlib.sha256()

    def add(self, nonce: bytes) -> None:
        """The seal of the next slot."""
        self._nonces.update(nonce)

    def digest(self, last: bytes = b"") -> bytes:
        """Stands for all seals so far, and for `last` as one more."""
        nonces = self._nonces.copy()
        nonces.update(last)
        return nonces.digest()


class RunningDigest:
    """The digest of the first `position` bytes of an upload, each of which came after the one before it.

    Hashing, which takes longer than sealing and writing, goes on in a thread behind them.
    """

    def __init__(self) -> None:
        self.position = 0
        self._bytes = hashlib.sha256()
        self._lane = Lane()
        self._trail = Trail()
        self._number = -1
        self._nonce = b""  # of the slot `_number`, which may still grow
        self._lost = False

    def follow(self, data: memoryview, seals: Sequence[Sealed]) -> None:
        """The next bytes, and the slots in their order that were sealed with them.

        `data` is read until what is given to `then` after it is called.
        """
        for sealed in seals:
            if sealed.number != self._number:
                self._trail.add(self._nonce)
                self._number = sealed.number
            elif sealed.before != self._nonce:
                self._lost = True  # somebody else wrote what came before these bytes
            self._nonce = sealed.nonce
        self._lane.add(partial(self._bytes.update, data))
        self.position += len(data)

    def then(self, call: Callable[[], object]) -> None:
        """Call something, in a thread, when all bytes so far are hashed."""
        self._lane.add(call)

    def covers(self, size: int) -> bool:
        """Whether it is the digest of an upload of this size."""
        return self.position == size and not self._lost

    def digest(self) -> bytes:
        """The SHA-256; blocks until all bytes so far are hashed."""
        self._lane.wait()
        return self._bytes.digest()

    def trail(self) -> bytes:
        """What a `Trail` over the same seals gives."""
        return self._trail.digest(self._nonce)


class RunningDigests:
    """The digests of the sessions whose bytes come in order; of too many the longest untouched are forgotten."""

    def __init__(self, most: int = _MOST_SESSIONS) -> None:
        self._most = most
        self._digests: OrderedDict[UUID, RunningDigest] = OrderedDict()

    @contextmanager
    def following(self, session_id: UUID, offset: int) -> Iterator[RunningDigest | None]:
        """The digest that bytes from `offset` on continue, for one writer; None where they come out of order."""
        digest = self._digests.pop(session_id, None)
        if digest is None or digest.position != offset:
            digest = RunningDigest() if offset == 0 else None
        try:
            yield digest
        finally:  # what broke the line did not change what came before
            if digest is not None:
                self._digests[session_id] = digest
            if len(self._digests) > self._most:
                self._digests.popitem(last=False)

    def whole(self, session_id: UUID, size: int) -> RunningDigest | None:
        """The digest of the whole upload, if its bytes came in order."""
        digest = self._digests.get(session_id)
        return digest if digest is not None and digest.covers(size) else None

    def forget(self, session_id: UUID) -> None:
        """The upload is over."""
        self._digests.pop(session_id, None)
