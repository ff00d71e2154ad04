"""Pages and people get documents as they were uploaded, and nothing in them runs as if it were ours."""

import hashlib
import json
from functools import partial

import pytest

from support.chromium import Page
from support.ingest import Ingest, Person, a_pdf
from support.site import Site
from support.waiting import eventually

pytestmark = pytest.mark.database


async def link_to(page: Page, ingest: Ingest, person: Person, document_id: str, disposition: str) -> str:
    """A signed link that the page has asked for."""
    answer = await page.fetch(
        f"{ingest.url}/v1/documents/{document_id}/links",
        method="POST",
        headers=person.headers | {"Content-Type": "application/json"},
        body=json.dumps({"expires_in": 60, "disposition": disposition}),
    )
    assert answer.status == 201, answer.text
    link: str = answer.json["url"]
    return ingest.url + link


async def test_a_page_fetches_a_document_whole_in_part_and_again(
    open_ingest: Ingest, editor: Person, page: Page
) -> None:
    content = a_pdf()
    document = await open_ingest.upload(editor, content, filename="契約書.pdf")
    url = f"{open_ingest.url}/v1/documents/{document['id']}/content"
    digest = f"""fetch({json.dumps(url)}, {{headers: {json.dumps(editor.headers)}}})
        .then((got) => got.arrayBuffer()).then((bytes) => crypto.subtle.digest('SHA-256', bytes))
        .then((digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join(''))"""

    digests = [await page.run(digest) for _ in range(2)]
    whole = await page.fetch(url, headers=editor.headers)
    part = await page.fetch(url, headers=editor.headers | {"Range": "bytes=-7", "If-Range": whole.headers["etag"]})
    known = await page.fetch(url, headers=editor.headers | {"If-None-Match": whole.headers["etag"]})
    beyond = await page.fetch(url, headers=editor.headers | {"Range": f"bytes={len(content)}-"})

    assert digests == [hashlib.sha256(content).hexdigest()] * 2
    assert "filename*=UTF-8''%E5%A5%91%E7%B4%84%E6%9B%B8.pdf" in whole.headers["content-disposition"]
    assert whole.headers["accept-ranges"] == "bytes"
    assert part.status == 206
    assert part.headers["content-range"] == f"bytes {len(content) - 7}-{len(content) - 1}/{len(content)}"
    assert known.status == 304
    assert beyond.status == 416


SAVED_AS = {
    "契約書 最終版.pdf": "契約書 最終版.pdf",
    "報告 \U0001f4c4 no. 1 (한국어).pdf": "報告 \U0001f4c4 no. 1 (한국어).pdf",
    "Müller & Söhne, 50%41; a=b.pdf": "Müller & Söhne, 50%41; a=b.pdf",
    "rechnung\u202efdp.pdf": "rechnungfdp.pdf",
    'a"b.pdf': "a_b.pdf",
}


async def test_a_link_is_saved_under_the_documents_name(open_ingest: Ingest, editor: Person, page: Page) -> None:
    for name, saved in SAVED_AS.items():
        content = a_pdf(5000)
        document = await open_ingest.upload(editor, content, filename=name)
        link = await link_to(page, open_ingest, editor, document["id"], "attachment")

        download = await page.download(f"location.href = {json.dumps(link)}")

        assert (download.name, download.content) == (saved, content)


RUN = "document.title = 'it ran'; new Image().src = '{beacon}'; fetch('{beacon}')"
XHTML = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title><script>{run}</script></head><body/></html>'
HOSTILE = {
    "text/html": '<!doctype html><title>x</title><script>{run}</script><body onload="{run}">',
    "image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" onload="{run}"><script>{run}</script></svg>',
    "application/xhtml+xml": XHTML,
    "text/xml": XHTML,
}


def hostile(media_type: str, site: Site) -> bytes:
    """A file that tells the site when its script runs."""
    run = RUN.replace("{beacon}", f"{site.url}/ran/{media_type}")
    return HOSTILE[media_type].replace("{run}", run).encode()


async def upload_hostile(ingest: Ingest, person: Person, page: Page, site: Site, media_type: str) -> tuple[bytes, str]:
    """Such a file that somebody has uploaded, and a link that asks for it to be shown."""
    content = hostile(media_type, site)
    document = await ingest.upload(person, content, filename="a.html", mime_type=media_type)
    return content, await link_to(page, ingest, person, document["id"], "inline")


async def ran(page: Page, site: Site, media_type: str) -> bool:
    """Whether a script of that file ran: what it did to its page, or the request that it sent."""
    return await page.run("document.title") == "it ran" or f"/ran/{media_type}" in site.asked


async def test_an_uploaded_file_that_could_run_is_saved_and_not_shown(
    open_ingest: Ingest, editor: Person, page: Page, site: Site
) -> None:
    for media_type in HOSTILE:
        content, link = await upload_hostile(open_ingest, editor, page, site, media_type)

        download = await page.download(f"location.href = {json.dumps(link)}")

        assert download.content == content
        assert await page.run("location.origin") == site.url, "the page is still there"
        assert not await ran(page, site, media_type)


async def test_nothing_in_an_uploaded_file_runs_where_something_shows_it_all_the_same(
    open_ingest: Ingest, editor: Person, page: Page, site: Site
) -> None:
    for media_type in HOSTILE:
        content, link = await upload_hostile(open_ingest, editor, page, site, media_type)
        async with open_ingest.session.get(link) as response:
            kept = {name: response.headers[name] for name in ("Content-Type", "Content-Security-Policy")}
        site.files["/shown"] = (content, kept)  # by a proxy, say, that takes other headers away
        site.files["/unguarded"] = (content, {"Content-Type": media_type})

        await page.open(f"{site.url}/shown")
        assert await page.run("[location.pathname, origin]") == ["/shown", "null"], "it is in a sandbox"
        assert not await ran(page, site, media_type)

        await page.open(f"{site.url}/unguarded")
        await eventually(partial(ran, page, site, media_type))


async def test_a_text_is_shown_and_is_no_script_whatever_it_holds(
    open_ingest: Ingest, editor: Person, page: Page, site: Site
) -> None:
    script = RUN.replace("{beacon}", f"{site.url}/ran/text/plain")
    content = f"/*<script>*/{script}/*</script>*/".encode()
    document = await open_ingest.upload(editor, content, filename="a.js", mime_type="text/plain")
    link = await link_to(page, open_ingest, editor, document["id"], "inline")

    outcome = await page.run(f"""new Promise((resolve) => {{
        const script = document.createElement('script')
        script.onload = () => resolve('loaded')
        script.onerror = () => resolve('refused')
        script.src = {json.dumps(link)}
        document.head.append(script)
    }})""")
    in_its_place = await ran(page, site, "text/plain")
    await page.open(link)

    assert (outcome, in_its_place) == ("refused", False)
    assert await page.run("document.body.innerText.includes('it ran')")
    assert not await ran(page, site, "text/plain")
