"""FLOE, one message: its keys, and its segments one at a time.

FLOE (c2sp.org/FLOE, eprint.iacr.org/2025/2275) is a random-access AEAD for large files, here with AES-256-GCM
and HKDF-Expand-SHA-384. What may be sealed or opened in which order is the business of
`nexarch.crypto.segments`; only that module should call this one.
"""

import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from nexarch.crypto.layout import (
    HEADER_TAG_LENGTH,
    IV_LENGTH,
    MARKER_LENGTH,
    NONCE_LENGTH,
    NOT_LAST,
    SEGMENT_OVERHEAD,
    Format,
    ObjectDamaged,
    ObjectTooLarge,
)

KEY_LENGTH = 32
_MESSAGE_KEY_LENGTH = 48
_BODY = MARKER_LENGTH + NONCE_LENGTH  # where ciphertext and tag begin in a segment
_segment_aad = struct.Struct(">Q?").pack  # segment number, then 1 for the last, else 0


class Message:
    """The keys of one message, derived from the object's key, the IV and the additional data."""

    def __init__(self, form: Format, key: bytes, iv: bytes, aad: bytes) -> None:
        if len(key) != KEY_LENGTH:
            raise ValueError(f"An object's key has {KEY_LENGTH} bytes.")
        self._form = form
        self._context = form.parameters + iv
        self._aad = aad
        header_tag = self._derive(key, b"HEADER_TAG:", HEADER_TAG_LENGTH)
        self.header = form.prefix + self._context + header_tag
        self._message_key = self._derive(key, b"MESSAGE_KEY:", _MESSAGE_KEY_LENGTH)
        self._epoch = -1
        self._cipher: AESGCM

    @classmethod
    def from_header(cls, form: Format, key: bytes, header: bytes, aad: bytes) -> "Message":
        """Derive the keys of a stored message; raise ObjectDamaged unless its header was made by this key."""
        parameters_end = len(form.prefix) + len(form.parameters)
        if not header.startswith(form.prefix):
            raise ObjectDamaged("The object does not begin with the prefix of this format and version.")
        if header[len(form.prefix) : parameters_end] != form.parameters:
            raise ObjectDamaged("The object's header names other parameters than this format's.")
        message = cls(form, key, header[parameters_end : parameters_end + IV_LENGTH], aad)
        if not hmac.compare_digest(message.header, header):
            raise ObjectDamaged("The object's header tag is wrong: it was sealed with another key or place.")
        return message

    def seal_segment(self, number: int, plaintext: memoryview, nonce: bytes, out: memoryview, *, last: bool) -> int:
        """Write one segment to the start of `out` and return its length; `last` may hold fewer bytes.

        Raises ObjectTooLarge at the format's number of segments.
        """
        if number >= self._form.max_segments:
            limit = self._form.max_plaintext
            raise ObjectTooLarge(f"An object holds at most {limit} bytes.", limit_bytes=limit)
        length = len(plaintext) + SEGMENT_OVERHEAD
        out[:_BODY] = (length.to_bytes(4, "big") if last else NOT_LAST) + nonce
        self._cipher_of(number).encrypt_into(nonce, plaintext, _segment_aad(number, last), out[_BODY:length])
        return length

    def open_segment(self, number: int, segment: memoryview, out: memoryview, *, last: bool) -> None:
        """Write the plaintext of one whole segment to `out`, which is exactly as long; raise ObjectDamaged.

        What `out` holds after an error is undefined and must not be used.
        """
        if segment[:MARKER_LENGTH] != (len(segment).to_bytes(4, "big") if last else NOT_LAST):
            where = "is not marked as the last" if last else "is marked as the last too early"
            raise ObjectDamaged(f"Segment {number} of the object {where}, or its length is wrong.")
        nonce = segment[MARKER_LENGTH:_BODY]
        try:
            self._cipher_of(number).decrypt_into(nonce, segment[_BODY:], _segment_aad(number, last), out)
        except InvalidTag as error:
            raise ObjectDamaged(f"Segment {number} of the object fails its check.") from error

    def _cipher_of(self, number: int) -> AESGCM:
        """Return the cipher for a segment; one key serves 2^mask segments in a row."""
        epoch = number >> self._form.rotation_mask
        if epoch != self._epoch:
            first = epoch << self._form.rotation_mask
            purpose = b"DEK:" + first.to_bytes(8, "big")
            self._cipher = AESGCM(self._derive(self._message_key, purpose, KEY_LENGTH))
            self._epoch = epoch
        return self._cipher

    def _derive(self, key: bytes, purpose: bytes, length: int) -> bytes:
        """FLOE_KDF: HKDF-Expand-SHA-384 over parameters, IV, purpose and additional data."""
        info = self._context + purpose + self._aad
        return HKDFExpand(algorithm=SHA384(), length=length, info=info).derive(key)
