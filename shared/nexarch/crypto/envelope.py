"""Small secrets sealed under a key: a DEK under its tenant's KEK, a KEK under the master key.

AES-256-GCM (NIST SP 800-38D) with a random nonce; a sealed secret is nonce (12) || ciphertext || tag (16).
One key is good for 2^32 secrets. Larger things are objects: see `nexarch.crypto.segments`.
"""

import os
from http import HTTPStatus
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nexarch.crypto.fields import encode_fields
from nexarch.errors import NexarchError

KEY_LENGTH = 32
_NONCE_LENGTH = 12


class SealBroken(NexarchError):
    """A sealed secret was changed, or was sealed under another key or in another context.

    Says nothing of the secret and, on purpose, not which of these it was.
    """

    code = "seal-broken"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    title = "A stored key cannot be opened"


def seal(key: bytes, plaintext: bytes, context: bytes) -> bytes:
    """Seal a secret under a 32-byte key; returns 28 bytes more than the plaintext has.

    `context` is authenticated, not stored: say with `encode_fields` what the secret is for and whose it is,
    so that a row copied elsewhere does not open there.
    """
    nonce = os.urandom(_NONCE_LENGTH)
    return nonce + _cipher(key).encrypt(nonce, plaintext, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Return the secret that `seal` got with the same key and context; raise SealBroken."""
    cipher = _cipher(key)
    try:
        return cipher.decrypt(sealed[:_NONCE_LENGTH], sealed[_NONCE_LENGTH:], context)
    except (InvalidTag, ValueError) as error:  # ValueError: too short to hold a nonce
        raise SealBroken("A sealed secret does not open with this key in this place.") from error


def new_dek() -> bytes:
    """Return a random 32-byte key for one object; never use one for two."""
    return os.urandom(KEY_LENGTH)


def wrap_dek(kek: bytes, dek: bytes, *, tenant_id: UUID, revision_id: UUID, kek_version: int) -> bytes:
    """Seal an object's key under the tenant's KEK; returns the 60 bytes of `file_revisions.wrapped_dek`."""
    return seal(kek, dek, _dek_context(tenant_id, revision_id, kek_version))


def unwrap_dek(kek: bytes, wrapped: bytes, *, tenant_id: UUID, revision_id: UUID, kek_version: int) -> bytes:
    """Return the object's key; raise SealBroken if it was wrapped for anything else than these four."""
    return open_sealed(kek, wrapped, _dek_context(tenant_id, revision_id, kek_version))


def wrap_staging_key(kek: bytes, key: bytes, *, tenant_id: UUID, session_id: UUID, kek_version: int) -> bytes:
    """Seal the key of an upload's staged bytes; returns the 60 bytes of `upload_sessions.wrapped_key`."""
    return seal(kek, key, _staging_context(tenant_id, session_id, kek_version))


def unwrap_staging_key(kek: bytes, wrapped: bytes, *, tenant_id: UUID, session_id: UUID, kek_version: int) -> bytes:
    """Return the key of an upload's staged bytes; raise SealBroken if it was wrapped for anything else than these."""
    return open_sealed(kek, wrapped, _staging_context(tenant_id, session_id, kek_version))


def _dek_context(tenant_id: UUID, revision_id: UUID, kek_version: int) -> bytes:
    """Label, tenant id, revision id (16 bytes each, network order), KEK version (u32), length-prefixed."""
    version = kek_version.to_bytes(4, "big")
    return encode_fields(b"nexarch/dek/1", tenant_id.bytes, revision_id.bytes, version)


def _staging_context(tenant_id: UUID, session_id: UUID, kek_version: int) -> bytes:
    """The same with a label of its own, tenant id, session id and KEK version."""
    version = kek_version.to_bytes(4, "big")
    return encode_fields(b"nexarch/staging-key/1", tenant_id.bytes, session_id.bytes, version)


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_LENGTH:
        raise ValueError(f"A sealing key has {KEY_LENGTH} bytes.")
    return AESGCM(key)
