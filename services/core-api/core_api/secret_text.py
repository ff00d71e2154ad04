"""How our secrets look: `nxo_<43 characters>_<crc>` (operator), `nxs_<client id>_<43 characters>_<crc>` (module).

The prefix lets scanners find a leaked one, 43 characters of base64url hold 256 random bits, and the CRC-32 (8 hex
digits) tells a typo from a wrong secret without a question to the database. Only the SHA-256 of the whole text is
stored: random bits need no slow hash, and a slow one would let strangers keep us busy.
"""

import hashlib
import re
import secrets
import zlib

_FORM = re.compile(r"(?P<text>nxo_[A-Za-z0-9_-]{43}|nxs_[A-Za-z0-9._-]{1,128}_[A-Za-z0-9_-]{43})_(?P<crc>[0-9a-f]{8})")


def new_operator_token() -> str:
    """A new token for an operator."""
    return _with_crc(f"nxo_{secrets.token_urlsafe(32)}")


def new_module_secret(client_id: str) -> str:
    """A new secret for a module's credential; the client id in it keeps it from serving another one."""
    return _with_crc(f"nxs_{client_id}_{secrets.token_urlsafe(32)}")


def is_well_formed(secret: str) -> bool:
    """Whether this could be one of ours: form and CRC; says nothing of whether it is known."""
    match = _FORM.fullmatch(secret)
    return match is not None and _crc(match["text"]) == match["crc"]


def digest(secret: str) -> bytes:
    """What is stored of a secret: its SHA-256, 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _with_crc(text: str) -> str:
    return f"{text}_{_crc(text)}"


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
