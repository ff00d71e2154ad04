"""The master key: seals what core-api keeps for others, so that a copy of the registry database opens nothing."""

import base64

from pydantic import SecretStr

from nexarch.crypto.envelope import open_sealed, seal
from nexarch.crypto.fields import encode_fields


class MasterKey:
    """Seals small secrets, each bound to what it is for and whose it is: a row copied elsewhere does not open."""

    def __init__(self, key_base64: SecretStr) -> None:
        self._key = base64.b64decode(key_base64.get_secret_value(), validate=True)

    def seal(self, secret: bytes, purpose: str, *owner: bytes) -> bytes:
        """Seal a secret for a purpose (`nexarch/kek/1`) and its owner (a tenant's id, a version)."""
        return seal(self._key, secret, encode_fields(purpose.encode(), *owner))

    def open(self, sealed: bytes, purpose: str, *owner: bytes) -> bytes:
        """Return the secret; `SealBroken` under another master key, for another purpose or another owner."""
        return open_sealed(self._key, sealed, encode_fields(purpose.encode(), *owner))
