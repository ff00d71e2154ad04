"""Downloads in ranges and under conditions (RFC 9110)."""

import pytest

from support.fetching import content_path, fetch
from support.ingest import Ingest, Person, a_pdf

pytestmark = pytest.mark.database

SEGMENT = 262_144  # of an object; 32 bytes less of plaintext


async def test_a_range_is_cut_out_of_the_right_place(ingest: Ingest, editor: Person) -> None:
    size = 1_000_000
    content = a_pdf(size)
    document = await ingest.upload(editor, content)
    edge = SEGMENT - 32
    ranges = [
        ("0-0", 0, 1),
        (f"{edge - 1}-{edge}", edge - 1, edge + 1),
        (f"{edge}-{2 * edge - 1}", edge, 2 * edge),
        (f"{size - 1}-", size - 1, size),
        ("-10", size - 10, size),
        ("700000-9999999", 700_000, size),
    ]
    for asked, start, stop in ranges:
        answer = await fetch(ingest, editor, content_path(document), {"Range": f"bytes={asked}"})

        assert (answer.status, answer.body) == (206, content[start:stop]), asked
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{size}"
        assert answer.headers["Content-Length"] == str(stop - start)


async def test_a_range_behind_the_end_names_the_size(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))

    answer = await fetch(ingest, editor, content_path(document), {"Range": "bytes=100-"})

    assert answer.status == 416
    assert answer.headers["Content-Range"] == "bytes */100"
    assert answer.headers["Content-Type"].startswith("application/problem+json")


async def test_several_ranges_are_answered_with_the_whole(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content)

    for asked in ["bytes=0-1,5-6", "bytes=x", "lines=1-2"]:
        answer = await fetch(ingest, editor, content_path(document), {"Range": asked})
        assert (answer.status, answer.body) == (200, content), asked


async def test_a_download_goes_on_only_in_the_same_file(ingest: Ingest, editor: Person) -> None:
    content = a_pdf(100)
    document = await ingest.upload(editor, content)
    path = content_path(document)
    whole = await fetch(ingest, editor, path)
    part = {"Range": "bytes=50-"}

    for condition, status in [
        (whole.headers["ETag"], 206),
        (whole.headers["Last-Modified"], 206),
        ('"other"', 200),
        ("W/" + whole.headers["ETag"], 200),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 200),
        ("", 200),
    ]:
        answer = await fetch(ingest, editor, path, part | {"If-Range": condition})
        assert answer.status == status, condition
        assert answer.body == content[50 if status == 206 else 0 :]


async def test_who_has_the_file_is_not_sent_it_again(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    path = content_path(document)
    whole = await fetch(ingest, editor, path)
    etag, modified = whole.headers["ETag"], whole.headers["Last-Modified"]
    old = "Mon, 01 Jan 2001 00:00:00 GMT"

    for headers, status in [
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": f'"a", W/{etag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"a"'}, 200),
        ({"If-None-Match": '"a"', "If-Modified-Since": modified}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": old}, 200),
        ({"If-Modified-Since": "gestern"}, 200),
        ({"If-Match": etag}, 200),
        ({"If-Match": '"a"'}, 412),
        ({"If-Match": f"W/{etag}"}, 412),
        ({"If-Unmodified-Since": old}, 412),
        ({"If-Unmodified-Since": modified}, 200),
    ]:
        answer = await fetch(ingest, editor, path, headers)
        assert answer.status == status, headers
        assert answer.headers["ETag"] == etag
        assert bool(answer.body) == (status == 200)


async def test_a_date_that_no_clock_shows_is_no_condition(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, a_pdf(100))
    for header in ["If-Modified-Since", "If-Unmodified-Since"]:
        for date in ["Sun, 06 Nov 9999999999 08:49:37 GMT", "Mon, 99 Foo 99999 99:99:99 GMT", "yesterday"]:
            answer = await fetch(ingest, editor, content_path(document), {header: date})

            assert answer.status == 200, (header, date)
