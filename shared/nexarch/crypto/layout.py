"""The encrypted object format as numbers: sizes, offsets, and where a byte range of the plaintext lies.

docs/object-format.md describes the format; `nexarch.crypto.floe` holds its keys and segments.
"""

from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID

from nexarch.crypto.fields import encode_fields
from nexarch.errors import NexarchError, TooLarge

IV_LENGTH = 32
HEADER_TAG_LENGTH = 32
NONCE_LENGTH = 12
TAG_LENGTH = 16
MARKER_LENGTH = 4
SEGMENT_OVERHEAD = MARKER_LENGTH + NONCE_LENGTH + TAG_LENGTH
NOT_LAST = b"\xff\xff\xff\xff"  # the marker of every segment but the last
MAX_ROTATION_MASK = 20  # FLOE's AEAD_ROTATION_MASK for AES-256-GCM: at most 2^20 segments under one key
MAX_SEGMENTS = 2**40  # FLOE's AEAD_MAX_SEGMENTS


class ObjectDamaged(NexarchError):
    """The stored bytes are not what was sealed for this document, or the key is not theirs.

    The detail says what failed and in which segment; it holds neither keys nor content.
    """

    code = "object-damaged"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    title = "The stored object is damaged"


class ObjectTooLarge(TooLarge):
    """The plaintext needs more segments than the format allows."""

    code = "object-too-large"
    title = "The file is too large to be sealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The segments that hold one range of the plaintext, and where they lie in the object (bytes)."""

    segments: range
    object_start: int
    object_stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The parameters of the format; published vectors use shorter segments and no prefix.

    Raises ValueError where FLOE (c2sp.org/FLOE) does not allow a parameter.
    """

    prefix: bytes
    segment_length: int  # of an encrypted segment, overhead included; only the last may be shorter
    rotation_mask: int = MAX_ROTATION_MASK  # a new segment key every 2^mask segments
    max_segments: int = MAX_SEGMENTS

    def __post_init__(self) -> None:
        if not SEGMENT_OVERHEAD < self.segment_length < 2**32 - 1:
            raise ValueError(f"An object cannot have segments of {self.segment_length} bytes.")
        if not 0 <= self.rotation_mask <= MAX_ROTATION_MASK:
            raise ValueError(f"A key is good for 2^0 to 2^{MAX_ROTATION_MASK} segments.")
        if not 1 <= self.max_segments <= MAX_SEGMENTS:
            raise ValueError(f"An object has 1 to {MAX_SEGMENTS} segments.")

    @property
    def parameters(self) -> bytes:
        """The 10 bytes that name AEAD, KDF, segment length and IV length in every header."""
        return b"\x00\x00" + self.segment_length.to_bytes(4, "big") + IV_LENGTH.to_bytes(4, "big")

    @property
    def header_length(self) -> int:
        """Bytes before segment 0: prefix, parameters, IV, header tag."""
        return len(self.prefix) + len(self.parameters) + IV_LENGTH + HEADER_TAG_LENGTH

    @property
    def segment_plaintext(self) -> int:
        """Bytes of plaintext in a full segment."""
        return self.segment_length - SEGMENT_OVERHEAD

    @property
    def max_plaintext(self) -> int:
        """The largest plaintext in bytes."""
        return self.max_segments * self.segment_plaintext

    def object_size(self, plaintext_size: int) -> int:
        """Return how many bytes a plaintext of this size has once it is sealed; raise ObjectTooLarge."""
        if plaintext_size < 0:
            raise ValueError("A size is not negative.")
        if plaintext_size > self.max_plaintext:
            raise ObjectTooLarge(f"An object holds at most {self.max_plaintext} bytes.", limit_bytes=self.max_plaintext)
        # An empty plaintext is one empty segment.
        segments = max(1, -(-plaintext_size // self.segment_plaintext))
        return self.header_length + segments * SEGMENT_OVERHEAD + plaintext_size

    def segment_count(self, object_size: int) -> int:
        """Return how many segments an object of this size has; raise ObjectDamaged if none can have it."""
        body = object_size - self.header_length
        if body < SEGMENT_OVERHEAD:
            raise ObjectDamaged(f"An object of {object_size} bytes has no room for a header and a segment.")
        segments = -(-body // self.segment_length)
        if body - (segments - 1) * self.segment_length < SEGMENT_OVERHEAD:
            raise ObjectDamaged(f"An object of {object_size} bytes ends inside a segment.")
        if segments > self.max_segments:
            raise ObjectDamaged(f"An object of {object_size} bytes has more segments than allowed.")
        return segments

    def plaintext_size(self, object_size: int) -> int:
        """Return the size of what is sealed in an object; raise ObjectDamaged if none can have this size."""
        return object_size - self.header_length - SEGMENT_OVERHEAD * self.segment_count(object_size)

    def locate(self, object_size: int, start: int, stop: int) -> Span:
        """Return where the plaintext bytes from `start` up to but without `stop` lie.

        Always at least one segment, so that an empty range is authenticated too; a range that reaches the
        end of the plaintext includes the last segment. Raises ValueError for a range outside the plaintext.
        """
        segments = self.segment_count(object_size)
        plaintext_size = self.plaintext_size(object_size)
        if not 0 <= start <= stop <= plaintext_size:
            raise ValueError(f"Bytes {start} to {stop} are not a range of {plaintext_size} bytes.")
        last = segments - 1
        first = min(start // self.segment_plaintext, last)
        end = last if stop == plaintext_size else max(first, (stop - 1) // self.segment_plaintext)
        return Span(
            segments=range(first, end + 1),
            object_start=self.header_length + first * self.segment_length,
            object_stop=min(self.header_length + (end + 1) * self.segment_length, object_size),
        )


NXO1 = Format(prefix=b"NXO1\x01\x00\x00\x00", segment_length=262_144)


def object_aad(tenant_id: UUID, document_id: UUID, revision_id: UUID) -> bytes:
    """Return what binds an object to its place: 80 bytes, authenticated but never stored.

    Four fields of 16 bytes, each after its length as u32 big-endian (00 00 00 10): the ASCII bytes of
    "nexarch/object/1", then tenant, document and revision id in network byte order (RFC 9562). Take the ids
    from the request, not from the row beside the wrapped key, so that swapped rows or objects are refused.
    """
    return encode_fields(b"nexarch/object/1", tenant_id.bytes, document_id.bytes, revision_id.bytes)
