"""What Postgres stores of a password, computed here, so that the password itself is in no statement and no log."""

import base64
import hashlib
import hmac
import secrets
import unicodedata

CHOSEN = 4096  # iterations for a password that a person may have chosen: what Postgres itself takes
# For one of 128 random bits or more, which nobody can guess however fast they try. Every client pays for them with each
# connection (asyncpg: 2.5 ms for 4096), and a worker makes one to each tenant that is rung.
RANDOM = 16


def scram_verifier(password: str, iterations: int = CHOSEN) -> str:
    """The SCRAM-SHA-256 verifier for `CREATE ROLE ... PASSWORD` (RFC 5803, RFC 7677), with a new salt.

    NFKC stands for the whole of SASLprep: the two differ in control characters and the like only.
    """
    salt = secrets.token_bytes(16)
    prepared = unicodedata.normalize("NFKC", password).encode()
    salted = hashlib.pbkdf2_hmac("sha256", prepared, salt, iterations)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return f"SCRAM-SHA-256${iterations}:{_b64(salt)}${_b64(stored_key)}:{_b64(server_key)}"


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
