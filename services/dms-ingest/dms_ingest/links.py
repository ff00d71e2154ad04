"""Signed links: a URL that gives out one revision without a token until it expires or the document's links are revoked.

The signature is HMAC-SHA-256 over all that the link grants, each value after its length, so that nothing can slide
from one value into the next. Whatever is wrong with a link, the answer is the same: `LinkRefused`.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from urllib.parse import quote, urlencode
from uuid import UUID

from dms_ingest.disposition import Disposition
from nexarch.crypto.fields import encode_fields
from nexarch.errors import Forbidden

VERSION = "2"
MAX_LIFE = timedelta(days=7)
_SKEW = timedelta(seconds=30)  # the clocks of two of our hosts may differ so much
_PARAMETERS = frozenset({"v", "k", "d", "n", "e", "nbf", "exp", "sig"})
_SECONDS = re.compile(r"[1-9][0-9]{0,10}", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_EPOCH = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class LinkRefused(Forbidden):
    """The link was not made by us for this, it is revoked, or its time is over; it is not said which."""

    code = "link-refused"
    title = "The link is not valid"

    def __init__(self) -> None:
        super().__init__("The link is not valid, or not any more.")


@dataclass(frozen=True, slots=True)
class LinkKey:
    """A key that signs links. Its id is derived from it, so that several may live at once."""

    id: str
    key: bytes

    def __repr__(self) -> str:
        return f"LinkKey({self.id})"

    @classmethod
    def from_secret(cls, secret: str) -> "LinkKey":
        """The key of a secret text without white space."""
        key = hashlib.sha256(b"nexarch/link-key/1" + secret.encode()).digest()
        return cls(hashlib.sha256(b"nexarch/link-key-id/1" + key).hexdigest()[:16], key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a link grants: one method on one revision, under one name, between two times."""

    method: str
    tenant: str  # slug
    document_id: UUID
    revision: int  # number
    disposition: Disposition
    name: str
    epoch: int  # of the document's links; another one than the document's now is revoked
    not_before: datetime
    expires_at: datetime


def link_url(link: Link, key: LinkKey) -> str:
    """The path and query of a link, signed."""
    path = f"/v1/links/{quote(link.tenant)}/{link.document_id}/{link.revision}"
    query = {
        "v": VERSION,
        "k": key.id,
        "d": link.disposition,
        "n": link.name,
        "e": str(link.epoch),
        "nbf": str(int(link.not_before.timestamp())),
        "exp": str(int(link.expires_at.timestamp())),
    }
    signature = _signature(key, link.method, link.tenant, str(link.document_id), str(link.revision), query)
    return f"{path}?{urlencode(query | {'sig': _text(signature)}, quote_via=quote)}"


def read_link(
    keys: Sequence[LinkKey],
    *,
    method: str,
    tenant: str,
    document: str,
    revision: str,
    query: Sequence[tuple[str, str]],
    now: datetime,
) -> Link:
    """The link that a request holds; LinkRefused. The signature is checked before anything is made of the rest.

    Whether it is revoked is for who has the document's row: see `Link.epoch`.
    """
    values = dict(query)
    if len(values) != len(query) or values.keys() != _PARAMETERS:
        raise LinkRefused
    # An unknown key id costs the same work as a wrong signature.
    key = next((key for key in keys if key.id == values["k"]), LinkKey("", b""))
    expected = _signature(key, method, tenant, document, revision, values)
    genuine = hmac.compare_digest(expected, _bytes(values["sig"]))
    if not genuine or not key.id or values["v"] != VERSION:
        raise LinkRefused
    link = _parsed(method, tenant, document, revision, values)
    # The longest life is a rule at this end too, whoever signed.
    if link.expires_at - link.not_before > MAX_LIFE or not link.not_before - _SKEW <= now < link.expires_at:
        raise LinkRefused
    return link


def _parsed(method: str, tenant: str, document: str, revision: str, values: Mapping[str, str]) -> Link:
    """Signed values are ours, so they are well formed, unless the key is in other hands too."""
    times = _SECONDS.fullmatch(values["nbf"]), _SECONDS.fullmatch(values["exp"])
    numbers = _NUMBER.fullmatch(revision), _EPOCH.fullmatch(values["e"])
    if not all((*times, *numbers)) or values["d"] not in {"attachment", "inline"}:
        raise LinkRefused
    try:
        return Link(
            method=method,
            tenant=tenant,
            document_id=UUID(document),
            revision=int(revision),
            disposition=cast("Disposition", values["d"]),
            name=values["n"],
            epoch=int(values["e"]),
            not_before=_time(values["nbf"]),
            expires_at=_time(values["exp"]),
        )
    except ValueError as error:
        raise LinkRefused from error


def _signature(key: LinkKey, method: str, tenant: str, document: str, revision: str, query: Mapping[str, str]) -> bytes:
    fields = [
        query["v"],
        key.id,
        method,
        tenant,
        document,
        revision,
        query["d"],
        query["n"],
        query["e"],
        query["nbf"],
        query["exp"],
    ]
    message = encode_fields(b"nexarch/link/2", *(field.encode("utf-8", "surrogatepass") for field in fields))
    return hmac.digest(key.key, message, "sha256")


def _time(seconds: str) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _text(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """The bytes of a signature, or none: those equal no signature. One text per signature, so no second spelling."""
    try:
        signature = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
    return signature if _text(signature) == text else b""
