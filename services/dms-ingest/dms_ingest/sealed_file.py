"""The bytes of one upload, sealed in its staged file slot by slot (`dms_ingest.slots`), at any offset and again.

A slot that gets only some new bytes is read, opened, joined with them and sealed anew, under a lock on its place: who
else writes to it waits. A slot that turns out to be damaged begins anew with the bytes that come. It does not claim to
hold the others, so complete asks for them again. All functions block: call them in threads.
"""

import mmap
import os
import threading
from uuid import UUID

from dms_ingest.running_digest import RunningDigest, Sealed, Trail
from dms_ingest.slots import NONCE_LENGTH, SLOT, STRIDE, Ranges, SlotDamaged, Slots, nonce_of, stored_length, with_range
from dms_ingest.staging import StagedFile


class BytesLost(Exception):
    """The disk has not kept some of the bytes from `start` up to but without `stop`."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(f"bytes {start} to {stop}")
        self.start = start
        self.stop = stop


_AT_ONCE = 4  # whole slots that are written or read with one call: every call hands the GIL over and back


class _Scratch(threading.local):
    """One slot open, and some sealed: every thread has its own, and uses it for whatever file is next."""

    def __init__(self) -> None:
        self.plaintext = memoryview(bytearray(SLOT))
        self.run = memoryview(mmap.mmap(-1, _AT_ONCE * STRIDE))  # begins at a page
        self.stored = self.run[:STRIDE]


class SealedFile:
    """The bytes of a session in a staged file that is open; one thread at a time."""

    _scratch = _Scratch()

    def __init__(self, file: StagedFile, key: bytes, session_id: UUID) -> None:
        self._file = file
        self._slots = Slots(key, session_id)

    def write(self, data: memoryview, offset: int, digest: RunningDigest | None = None) -> int:
        """Seal bytes at an offset and return how many lie on disk now: fewer than given only if the disk is full.

        `digest`, if given, follows those that do, and still reads them then. Raises UploadScattered.
        """
        written = 0
        seals: list[Sealed] = []
        first, end = offset // SLOT, -(-(offset + len(data)) // SLOT)
        with self._file.locked(first * STRIDE, max(end - first, 1) * STRIDE):
            while written < len(data):
                number, begin = divmod(offset + written, SLOT)
                rest = data[written:]
                if begin == 0 and len(rest) >= SLOT:
                    part = rest[: min(len(rest) // SLOT, _AT_ONCE) * SLOT]
                    new = self._put_whole(number, part)
                    taken = len(new) * SLOT
                else:
                    part = rest[: SLOT - begin]
                    new = self._put_part(number, begin, part)
                    taken = len(part) if new else 0
                seals += new
                written += taken
                if taken < len(part):
                    break
        if digest is not None:
            digest.follow(data[:written], seals)
        return written

    def read_into(self, buffer: memoryview, offset: int, trail: Trail | None = None) -> int:
        """Fill the buffer with the bytes from an offset on and return how many; BytesLost for a slot that lacks some.

        `trail`, if given, follows the seals of the slots that begin there.
        """
        filled = 0
        while filled < len(buffer):
            number, begin = divmod(offset + filled, SLOT)
            rest = buffer[filled:]
            if begin == 0 and len(rest) >= SLOT:
                filled += self._read_whole(number, rest[: min(len(rest) // SLOT, _AT_ONCE) * SLOT], trail)
            else:
                filled += self._read_part(number, begin, rest[: SLOT - begin], trail)
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

    def _read_whole(self, number: int, target: memoryview, trail: Trail | None) -> int:
        """Read some whole slots, and open each where it is wanted."""
        count = len(target) // SLOT
        stored = self._scratch.run[: count * STRIDE]
        stored = stored[: self._file.read_pages(stored, number * STRIDE)]
        for index in range(count):
            start, slot = (number + index) * SLOT, stored[index * STRIDE : (index + 1) * STRIDE]
            try:
                ranges = self._slots.open_into(number + index, slot, target[index * SLOT : (index + 1) * SLOT])
            except SlotDamaged as error:
                raise BytesLost(start, start + SLOT) from error
            if ranges != ((0, SLOT),):
                raise BytesLost(start, start + SLOT)
            if trail is not None:
                trail.add(nonce_of(slot))
        return count * SLOT

    def _read_part(self, number: int, begin: int, target: memoryview, trail: Trail | None) -> int:
        """Read bytes of one slot."""
        start, stop = number * SLOT + begin, begin + len(target)
        try:
            ranges, nonce = self._open(number, self._scratch.plaintext)
        except SlotDamaged as error:
            raise BytesLost(start, start + len(target)) from error
        if not any(first <= begin and stop <= last for first, last in ranges):
            raise BytesLost(start, start + len(target))
        target[:] = self._scratch.plaintext[begin:stop]
        if trail is not None and begin == 0:
            trail.add(nonce)
        return len(target)

    def _put_whole(self, number: int, data: memoryview) -> list[Sealed]:
        """Seal some whole slots, whatever lies in their places; the seals are fewer if the disk is full."""
        run = self._scratch.run
        nonces = os.urandom(len(data) // SLOT * NONCE_LENGTH)  # one call for all: each hands the GIL over and back
        seals: list[Sealed] = []
        for index in range(len(data) // SLOT):
            nonce = nonces[index * NONCE_LENGTH : (index + 1) * NONCE_LENGTH]
            plaintext, slot = data[index * SLOT : (index + 1) * SLOT], run[index * STRIDE : (index + 1) * STRIDE]
            self._slots.seal_into(number + index, plaintext, ((0, SLOT),), nonce, slot)
            seals.append(Sealed(number + index, nonce, None))
        count = self._file.write_pages(run[: len(seals) * STRIDE], number * STRIDE) // STRIDE
        return seals[:count]

    def _put_part(self, number: int, begin: int, part: memoryview) -> list[Sealed]:
        """Seal a part of a slot with what else has come of it; no seal if the disk is full, and the slot as it was."""
        plaintext, ranges, before, kept = self._joined(number, begin, part)
        stored, place = self._scratch.stored, number * STRIDE
        nonce = os.urandom(NONCE_LENGTH)
        length = self._slots.seal_into(number, plaintext, ranges, nonce, stored)
        # What the slot grows by comes first: if the disk does not take it, the slot still opens as it was.
        if self._file.write_at(stored[kept:length], place + kept) < length - kept:
            return []
        if self._file.write_at(stored[:kept], place) < kept:
            return []
        return [Sealed(number, nonce, before)]

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
