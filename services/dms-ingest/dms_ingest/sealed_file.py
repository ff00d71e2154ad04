"""The bytes of one upload, sealed in its staged file slot by slot (`dms_ingest.slots`), at any offset and again.

A slot that gets only some new bytes is read, opened, joined with them and sealed anew, under a lock on its place: who
else writes to it waits. A slot that turns out to be damaged begins anew with the bytes that come. It does not claim to
hold the others, so complete asks for them again. All functions block: call them in threads.
"""

import threading
from uuid import UUID

from dms_ingest.running_digest import RunningDigest, Sealed, Trail
from dms_ingest.slots import SLOT, STRIDE, Ranges, SlotDamaged, Slots, nonce_of, stored_length, with_range
from dms_ingest.staging import StagedFile


class BytesLost(Exception):
    """The disk has not kept some of the bytes from `start` up to but without `stop`."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(f"bytes {start} to {stop}")
        self.start = start
        self.stop = stop


class _Scratch(threading.local):
    """One slot, open and sealed: every thread has its own, and uses it for whatever file is next."""

    def __init__(self) -> None:
        self.plaintext = memoryview(bytearray(SLOT))
        self.stored = memoryview(bytearray(STRIDE))


class SealedFile:
    """The bytes of a session in a staged file that is open; one thread at a time."""

    _scratch = _Scratch()

    def __init__(self, file: StagedFile, key: bytes, session_id: UUID) -> None:
        self._file = file
        self._slots = Slots(key, session_id)

    def write(self, data: memoryview, offset: int, digest: RunningDigest | None = None) -> int:
        """Seal bytes at an offset and return how many lie on disk now: fewer than given only if the disk is full.

        `digest`, if given, follows those that do. Raises UploadScattered.
        """
        written = 0
        first, end = offset // SLOT, -(-(offset + len(data)) // SLOT)
        with self._file.locked(first * STRIDE, max(end - first, 1) * STRIDE):
            while written < len(data):
                number, begin = divmod(offset + written, SLOT)
                part = data[written : written + SLOT - begin]
                sealed = self._put(number, begin, part)
                if sealed is None:
                    break
                if digest is not None:
                    digest.follow(part, sealed)
                written += len(part)
        return written

    def read_into(self, buffer: memoryview, offset: int, trail: Trail | None = None) -> int:
        """Fill the buffer with the bytes from an offset on and return how many; BytesLost for a slot that lacks some.

        `trail`, if given, follows the seals of the slots that begin there.
        """
        filled = 0
        while filled < len(buffer):
            number, begin = divmod(offset + filled, SLOT)
            part = buffer[filled : filled + SLOT - begin]
            # A whole slot is opened where it is wanted.
            target = part if len(part) == SLOT else self._scratch.plaintext
            try:
                ranges, nonce = self._open(number, target)
            except SlotDamaged as error:
                raise BytesLost(offset + filled, offset + filled + len(part)) from error
            if not any(start <= begin and begin + len(part) <= stop for start, stop in ranges):
                raise BytesLost(offset + filled, offset + filled + len(part))
            if target is not part:
                part[:] = target[begin : begin + len(part)]
            if trail is not None and begin == 0:
                trail.add(nonce)
            filled += len(part)
        return filled

    def lost(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts of a range of the upload that the disk has not kept, by whole slots; `start` begins one."""
        lost: list[tuple[int, int]] = []
        buffer = memoryview(bytearray(SLOT))
        for offset in range(start, stop, SLOT):
            end = min(offset + SLOT, stop)
            try:
                self.read_into(buffer[: end - offset], offset)
            except BytesLost:
                begin = lost.pop()[0] if lost and lost[-1][1] == offset else offset
                lost.append((begin, end))
        return lost

    def begin_sync(self, offset: int, length: int) -> None:
        """Begin to bring a range to the disk, so that `sync` finds little left to wait for; does not wait itself."""
        first, end = offset // SLOT, -(-(offset + length) // SLOT)
        self._file.begin_sync(first * STRIDE, (end - first) * STRIDE)

    def sync(self) -> None:
        """Return when the bytes written so far would survive a power cut."""
        self._file.sync()

    def _put(self, number: int, begin: int, part: memoryview) -> Sealed | None:
        """Seal a part of a slot with what else has come of it; None if the disk is full, and the slot as it was."""
        stored = self._scratch.stored
        if len(part) == SLOT:
            length = self._slots.seal_into(number, part, ((0, SLOT),), stored)
            before, kept = None, 0
        else:
            plaintext, ranges, before, kept = self._joined(number, begin, part)
            length = self._slots.seal_into(number, plaintext, ranges, stored)
        place = number * STRIDE
        # What the slot grows by comes first: if the disk does not take it, the slot still opens as it was.
        if self._file.write_at(stored[kept:length], place + kept) < length - kept:
            return None
        if self._file.write_at(stored[:kept], place) < kept:
            return None
        return Sealed(number, nonce_of(stored), before)

    def _joined(self, number: int, begin: int, part: memoryview) -> tuple[memoryview, Ranges, bytes | None, int]:
        """The slot's bytes with the part among them, which have come, the present seal, and its length on disk."""
        plaintext = self._scratch.plaintext
        try:
            ranges, before = self._open(number, plaintext)
        except SlotDamaged:
            ranges, before = (), None
        stop = ranges[-1][1] if ranges else 0
        if stop < begin:
            plaintext[stop:begin] = bytes(begin - stop)
        plaintext[begin : begin + len(part)] = part
        joined = with_range(ranges, begin, begin + len(part))
        return plaintext[: joined[-1][1]], joined, before, stored_length(stop) if ranges else 0

    def _open(self, number: int, target: memoryview) -> tuple[Ranges, bytes]:
        stored = self._scratch.stored
        length = self._file.read_at(stored, number * STRIDE)
        return self._slots.open_into(number, stored[:length], target), nonce_of(stored)
