from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import pytest

from dms_ingest.links import MAX_LIFE, Link, LinkKey, LinkRefused, link_url, read_link

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KEY = LinkKey.from_secret("a" * 32)
OTHER_KEY = LinkKey.from_secret("b" * 32)
LINK = Link(
    method="GET",
    tenant="acme",
    document_id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    revision=12,
    disposition="attachment",
    name="Müller & Söhne.pdf",
    epoch=7,
    not_before=NOW,
    expires_at=NOW + timedelta(hours=1),
)
Query = list[tuple[str, str]]


def read(
    url: str,
    *,
    now: datetime = NOW,
    method: str = "GET",
    keys: Sequence[LinkKey] = (KEY,),
    query: Query | None = None,
    path: str | None = None,
) -> Link:
    parts = urlsplit(url)
    tenant, document, revision = (path or parts.path).removeprefix("/v1/links/").split("/")
    given = query if query is not None else parse_qsl(parts.query, keep_blank_values=True)
    return read_link(keys, method=method, tenant=tenant, document=document, revision=revision, query=given, now=now)


def query_of(url: str) -> Query:
    return parse_qsl(urlsplit(url).query)


def changed(url: str, name: str, value: str) -> Query:
    return [(key, value if key == name else old) for key, old in query_of(url)]


def test_a_link_gives_back_what_was_signed() -> None:
    assert read(link_url(LINK, KEY)) == LINK


def test_a_link_for_one_method_serves_no_other() -> None:
    for method in ["HEAD", "PUT", "DELETE", "get"]:
        with pytest.raises(LinkRefused):
            read(link_url(LINK, KEY), method=method)


def test_a_link_ends_at_its_second_and_begins_at_its_first() -> None:
    url = link_url(LINK, KEY)

    read(url, now=LINK.expires_at - timedelta(seconds=1))
    read(url, now=NOW - timedelta(seconds=29))
    for now in [LINK.expires_at, LINK.expires_at + timedelta(seconds=1), NOW - timedelta(seconds=31)]:
        with pytest.raises(LinkRefused):
            read(url, now=now)


def test_a_link_that_was_signed_for_too_long_is_refused() -> None:
    read(link_url(replace(LINK, expires_at=NOW + MAX_LIFE), KEY))

    for life in [MAX_LIFE + timedelta(seconds=1), timedelta(days=365)]:
        with pytest.raises(LinkRefused):
            read(link_url(replace(LINK, expires_at=NOW + life), KEY))
    future = replace(LINK, not_before=NOW + timedelta(days=9), expires_at=NOW + timedelta(days=9, hours=1))
    with pytest.raises(LinkRefused):
        read(link_url(future, KEY))


@pytest.mark.parametrize(
    "value", ["", "0", "-1", "1e18", "1000000000000000000", "1777640400 ", "１", "\x00", "9" * 5000]
)
@pytest.mark.parametrize("name", ["exp", "nbf"])
def test_an_edited_time_is_refused(name: str, value: str) -> None:
    url = link_url(LINK, KEY)

    with pytest.raises(LinkRefused):
        read(url, query=changed(url, name, value))


@pytest.mark.parametrize("value", ["", "6", "8", "07", "-7", "7 ", "７", "7.0", "9" * 5000])
def test_an_edited_epoch_is_refused(value: str) -> None:
    url = link_url(LINK, KEY)

    with pytest.raises(LinkRefused):
        read(url, query=changed(url, "e", value))


@pytest.mark.parametrize("name", ["v", "k", "d", "n", "e", "nbf", "exp", "sig"])
def test_every_parameter_stands_there_once(name: str) -> None:
    url = link_url(LINK, KEY)
    query = query_of(url)

    for wrong in [
        [pair for pair in query if pair[0] != name],
        [*query, next(pair for pair in query if pair[0] == name)],
        [*query, ("x", "1")],
        changed(url, name, ""),
        changed(url, name, dict(query)[name] + "x"),
    ]:
        with pytest.raises(LinkRefused):
            read(url, query=wrong)


def test_nothing_slides_from_one_field_into_the_next() -> None:
    url = link_url(LINK, KEY)
    slid = link_url(replace(LINK, method="GE", tenant="Tacme"), KEY)
    assert dict(query_of(slid))["sig"] != dict(query_of(url))["sig"]
    path = urlsplit(url).path

    for wrong in [
        path.replace("/12", "/1"),
        path.replace("/12", "/123"),
        path.replace("acme", "acm"),
        path.replace("acme", "beta"),
        path.replace("8057/12", "805/712"),
        path.replace(str(LINK.document_id), str(LINK.document_id).upper()),
        path.replace(str(LINK.document_id), "..%2f"),
        path.replace("/12", "/012"),
        path.replace("/12", "/１２"),
    ]:
        with pytest.raises(LinkRefused):
            read(url, path=wrong)
    query = changed(url, "n", LINK.name + "7")
    for wrong_query in [
        changed(url, "n", LINK.name + "attachment"),
        [(name, "" if name == "e" else value) for name, value in query],
        [(name, value[1:] if name == "nbf" else value) for name, value in changed(url, "e", "71")],
    ]:
        with pytest.raises(LinkRefused):
            read(url, query=wrong_query)


@pytest.mark.parametrize(
    "change", ["empty", "upper", "cut", "padded", "non-ascii", "huge", "other last bits", "surrogate"]
)
def test_a_changed_signature_is_refused(change: str) -> None:
    url = link_url(LINK, KEY)
    signature = dict(query_of(url))["sig"]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    wrong = {
        "empty": "",
        "upper": signature.upper(),
        "cut": signature[:-1],
        "padded": signature + "=",
        "non-ascii": "é" * 43,
        "huge": "A" * 10_240,
        "other last bits": signature[:-1] + last[last.index(signature[-1]) ^ 1],
        "surrogate": "\ud800",
    }[change]

    with pytest.raises(LinkRefused):
        read(url, query=changed(url, "sig", wrong))


def test_a_key_is_known_by_its_id_as_long_as_it_is_there() -> None:
    url = link_url(LINK, OTHER_KEY)

    read(url, keys=[KEY, OTHER_KEY])
    for keys in [[KEY], []]:
        with pytest.raises(LinkRefused):
            read(url, keys=keys)
    for key_id in ["none", "", KEY.id]:
        with pytest.raises(LinkRefused):
            read(url, keys=[KEY, OTHER_KEY], query=changed(url, "k", key_id))


def test_a_link_signed_with_no_key_at_all_is_refused() -> None:
    with pytest.raises(LinkRefused):
        read(link_url(LINK, LinkKey("", b"")))


def test_a_key_does_not_show_itself() -> None:
    assert repr(KEY) == f"LinkKey({KEY.id})"
    assert KEY.id != KEY.key.hex()[:16]


def test_every_refusal_says_the_same() -> None:
    refusals = set()
    for arguments in [{"method": "PUT"}, {"now": LINK.expires_at}, {"query": []}]:
        with pytest.raises(LinkRefused) as caught:
            read(link_url(LINK, KEY), **arguments)  # type: ignore[arg-type]
        refusals.add((caught.value.detail, str(caught.value.members)))

    assert len(refusals) == 1
