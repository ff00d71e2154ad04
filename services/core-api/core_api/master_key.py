"""The master key: seals what core-api keeps for others, so that a copy of the registry database opens nothing."""

import base64

from pydantic import SecretStr

from nexarch.crypto.envelope import SealBroken, open_sealed, seal
from nexarch.crypto.fields import encode_fields


class MasterKey:
    """Seals small secrets, each bound to what it is for and whose it is: a row copied elsewhere does not open.

    Made from one key or several, in base64 with white space between. The first seals; all open, so that one can be
    replaced while it is in use (`core_api.resealing`).
    """

    def __init__(self, keys_base64: SecretStr) -> None:
        self._keys = [base64.b64decode(key, validate=True) for key in keys_base64.get_secret_value().split()]

    def seal(self, secret: bytes, purpose: str, *owner: bytes) -> bytes:
        """Seal a secret for a purpose (`nexarch/kek/1`) and its owner (a tenant's id, a version)."""
        return seal(self._keys[0], secret, encode_fields(purpose.encode(), *owner))

    def open(self, sealed: bytes, purpose: str, *owner: bytes) -> bytes:
        """Return the secret; `SealBroken` under another master key, for another purpose or another owner."""
        context = encode_fields(purpose.encode(), *owner)
        for key in self._keys[:-1]:
            try:
                return open_sealed(key, sealed, context)
            except SealBroken:  # perhaps under the next one
                continue
        return open_sealed(self._keys[-1], sealed, context)

    def is_sealed_anew(self, sealed: bytes, purpose: str, *owner: bytes) -> bool:
        """Whether the first key opens it, so that no other is needed for it."""
        try:
            open_sealed(self._keys[0], sealed, encode_fields(purpose.encode(), *owner))
        except SealBroken:
            return False
        return True
