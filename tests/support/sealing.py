"""Small sealed objects, with segments so short that every border lies within a few bytes."""

from nexarch.crypto.layout import NXO1, Format
from nexarch.crypto.segments import Opener, Sealer

# Short segments of 16 bytes of plaintext, a new key every two.
SHORT = Format(prefix=NXO1.prefix, segment_length=48, rotation_mask=1)
KEY = bytes(range(32))
AAD = b"one place"
TEXT = bytes(range(200, 256)) + b"tail"  # 60 bytes: three full segments and 12 bytes


def sealed(text: bytes, *, key: bytes = KEY, aad: bytes = AAD, form: Format = SHORT) -> bytes:
    sealer = Sealer(key, aad, form=form)
    return sealer.update(text) + sealer.finish()


def opened(
    stored: bytes,
    *,
    key: bytes = KEY,
    aad: bytes = AAD,
    plaintext_size: int | None = None,
    form: Format = SHORT,
) -> bytes:
    opener = Opener(key, aad, stored_size=len(stored), plaintext_size=plaintext_size, form=form)
    text = opener.update(stored)
    opener.finish()
    return text


def header_and_segments(stored: bytes) -> tuple[bytes, list[bytes]]:
    starts = range(SHORT.header_length, len(stored), SHORT.segment_length)
    return stored[: SHORT.header_length], [stored[at : at + SHORT.segment_length] for at in starts]
