"""What Postgres stores of a password, computed here, so that the password itself is in no statement and no log."""

import base64
import hashlib
import hmac
import secrets
import unicodedata

_ITERATIONS = 4096  # what Postgres itself takes; our passwords are random, so more would gain nothing


def scram_verifier(password: str) -> str:
    """The SCRAM-SHA-256 verifier for `CREATE ROLE ... PASSWORD` (RFC 5803, RFC 7677), with a new salt.

    NFKC stands for the whole of SASLprep: the two differ in control characters and the like only.
    """
    salt = secrets.token_bytes(16)
    prepared = unicodedata.normalize("NFKC", password).encode()
    salted = hashlib.pbkdf2_hmac("sha256", prepared, salt, _ITERATIONS)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return f"SCRAM-SHA-256${_ITERATIONS}:{_b64(salt)}${_b64(stored_key)}:{_b64(server_key)}"


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
