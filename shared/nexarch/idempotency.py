"""`Idempotency-Key`: a client that did not hear the answer to a creating POST sends it again with the same key.

(draft-ietf-httpapi-idempotency-key-header.) The key is stored with what was created and is unique there; what it
stands for, and for how long, is each field's rule.
"""

import re
from collections.abc import Mapping

from nexarch.errors import Invalid

_FORM = re.compile(r"[\x21-\x7e]{1,255}")


class BadIdempotencyKey(Invalid):
    """An Idempotency-Key has 1 to 255 visible ASCII characters."""

    code = "bad-idempotency-key"
    title = "The Idempotency-Key is not valid"


class IdempotencyKeyReused(Invalid):
    """The same Idempotency-Key came before with another request."""

    code = "idempotency-key-reused"
    title = "The Idempotency-Key stands for another request"

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was sent before with another body; use a new one.")


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """The key in a request's headers, None without one; `BadIdempotencyKey`."""
    key = headers.get("Idempotency-Key")
    if key is not None and _FORM.fullmatch(key) is None:
        raise BadIdempotencyKey("An Idempotency-Key has 1 to 255 visible ASCII characters.")
    return key
