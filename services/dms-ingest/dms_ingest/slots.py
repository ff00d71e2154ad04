"""Slots: how the bytes of an upload are sealed while they lie on disk. No I/O, no keys but the one that is given.

An upload is cut into slots of 262,144 bytes, so that chunks may come in any order and again. Slot n lies at n * 266,240
(65 pages, so no page of the disk holds two slots):

    u32 number of ranges | 12 bytes nonce | ranges: u32 start, u32 stop each | zeros up to byte 4,080 |
    ciphertext, up to the stop of the last range | 16 bytes tag

The ranges say which bytes of the slot have come, in order and with gaps between them; the gaps are sealed as zeros. A
slot that holds nothing has no ranges. AES-256-GCM; the additional data is the label, the session's id, the slot's
number (u64) and what stands before the zeros, so a slot opens only where it was sealed. Whatever changes a slot seals
it anew.
"""

import struct
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nexarch.errors import Conflict

SLOT = 1 << 18  # bytes of plaintext
STRIDE = 65 * 4096  # bytes on disk
TAG_LENGTH = 16
HEADER = STRIDE - SLOT - TAG_LENGTH
NONCE_LENGTH = 12
_FIXED = 4 + NONCE_LENGTH  # before the ranges
MOST_RANGES = (HEADER - _FIXED) // 8

_LABEL = b"nexarch/staged/1"
_count = struct.Struct(">I")
_number = struct.Struct(">Q").pack

Ranges = tuple[tuple[int, int], ...]  # bytes of a slot: from the first up to but without the second


class UploadScattered(Conflict):
    """The bytes came in so small pieces, with gaps between them, that the gaps must be filled first."""

    code = "upload-scattered"
    title = "The bytes came in too many pieces"


class SlotDamaged(Exception):
    """What lies in the place of a slot is not what was sealed for it; its bytes must be sent again."""


class Slots:
    """Seals and opens the slots of one session under its key of 32 bytes."""

    def __init__(self, key: bytes, session_id: UUID) -> None:
        self._cipher = AESGCM(key)
        self._context = _LABEL + session_id.bytes

    def seal_into(self, number: int, plaintext: memoryview, ranges: Ranges, nonce: bytes, out: memoryview) -> int:
        """Write a slot to the start of `out` and return its length; `plaintext` ends where the last range does.

        `nonce` is random and used once.
        """
        head = _count.pack(len(ranges)) + nonce + _packed(ranges)
        out[: len(head)] = head
        out[len(head) : HEADER] = bytes(HEADER - len(head))
        length = stored_length(len(plaintext))
        context = self._context + _number(number) + head
        self._cipher.encrypt_into(nonce, plaintext, context, out[HEADER:length])
        return length

    def open_into(self, number: int, stored: memoryview, out: memoryview) -> Ranges:
        """Write the plaintext of a slot to the start of `out` and return which bytes of it have come.

        `stored` is what lies in its place, with whatever follows. Raises SlotDamaged; what `out` holds then must not
        be used.
        """
        if not any(stored[:_FIXED]):
            return ()  # nothing was ever written here
        if len(stored) < HEADER or not 0 < (count := _count.unpack_from(stored)[0]) <= MOST_RANGES:
            raise SlotDamaged
        head = stored[: _FIXED + 8 * count].tobytes()
        bounds = struct.unpack_from(f">{2 * count}I", head, _FIXED)
        length = bounds[-1]
        if length > SLOT or len(stored) < stored_length(length):
            raise SlotDamaged
        context = self._context + _number(number) + head
        try:
            self._cipher.decrypt_into(head[4:_FIXED], stored[HEADER : stored_length(length)], context, out[:length])
        except InvalidTag as error:
            raise SlotDamaged from error
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))


def nonce_of(stored: memoryview) -> bytes:
    """The nonce of a slot that was sealed or opened: with the key it stands for all of its bytes."""
    return stored[4:_FIXED].tobytes()


def stored_length(length: int) -> int:
    """Bytes on disk of a slot that holds so many bytes of plaintext, gaps included."""
    return HEADER + length + TAG_LENGTH


def with_range(ranges: Ranges, start: int, stop: int) -> Ranges:
    """The ranges and one more, joined where they touch; UploadScattered if a slot cannot hold so many."""
    apart = [part for part in ranges if part[1] < start or part[0] > stop]
    touching = [part for part in ranges if part[1] >= start and part[0] <= stop]
    joined = (min([start, *(part[0] for part in touching)]), max([stop, *(part[1] for part in touching)]))
    result = tuple(sorted([*apart, joined]))
    if len(result) > MOST_RANGES:
        raise UploadScattered(
            f"Within {SLOT} bytes at most {MOST_RANGES} pieces may lie apart; send what is missing between them first."
        )
    return result


def _packed(ranges: Ranges) -> bytes:
    return b"".join(struct.pack(">II", *part) for part in ranges)
