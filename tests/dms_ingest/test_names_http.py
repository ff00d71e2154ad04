"""Names of every kind, from the upload to the list, the search, a rename and the download."""

import unicodedata
from dataclasses import dataclass
from urllib.parse import unquote

import pytest

from support.ingest import PDF, Ingest, Person

pytestmark = pytest.mark.database


@dataclass(frozen=True, kw_only=True)
class Name:
    """A name as it is sent, a word of it that finds it, and the name that a download has (None: the same)."""

    sent: str
    word: str
    saved: str | None = None


NAMES = {
    "composed and decomposed": Name(sent=unicodedata.normalize("NFD", "Prüfbericht Größe.pdf"), word="Größe"),
    "Hangul in its parts": Name(sent=unicodedata.normalize("NFD", "한국어 계약서.pdf"), word="계약서"),
    "CJK": Name(sent="契約書 最終版.pdf", word="最終版"),
    "quotes": Name(sent="""Das "gute" 'Angebot' \\ 100%.pdf""", word="Angebot"),
    "emoji": Name(sent="Urlaub \U0001f3d6\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467.pdf", word="Urlaub"),
    "bidi controls": Name(sent="Rechnung\u202efdp.exe", word="Rechnung", saved="Rechnungfdp.exe"),
    "right to left": Name(sent="حبيبي عقد.pdf", word="عقد"),
    "trailing dots": Name(sent="Stand vom Montag...", word="Montag"),
    "leading dot": Name(sent=".Profil Sicherung", word="Sicherung"),
    "header injection": Name(sent="x; filename=evil.exe, Bericht.pdf", word="Bericht"),
    "semicolon and comma": Name(sent="a;b,c=d Liste.csv", word="Liste"),
    "255 letters": Name(sent="Anlage " + "x" * 244 + ".pdf", word="Anlage"),
    "255 characters of three bytes": Name(sent="契" * 248 + " 約.pdf", word="約"),
    "255 characters that come in 510": Name(
        sent=unicodedata.normalize("NFD", "ü" * 244 + " Anlage.pdf"), word="Anlage"
    ),
    "255 emoji": Name(sent="\U0001f4c4" * 244 + " Anlage.pdf", word="Anlage"),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
async def test_a_name_is_stored_in_nfc_and_found_shown_and_downloaded_right(
    ingest: Ingest, editor: Person, name: Name
) -> None:
    stored = unicodedata.normalize("NFC", name.sent)
    document = await ingest.upload(editor, PDF, filename=name.sent, mime_type="application/octet-stream")
    path = f"/v1/documents/{document['id']}"

    _, listed = await ingest.call(
        editor, "GET", "/v1/documents", params={"text": unicodedata.normalize("NFD", stored[-80:])}
    )
    _, found = await ingest.call(editor, "GET", "/v1/search", params={"q": name.word})
    async with ingest.session.get(f"{ingest.url}{path}/content", headers=editor.headers) as response:
        disposition = response.headers["Content-Disposition"]
        read = response.content_disposition

    assert document["name"] == stored
    assert [item["name"] for item in listed["items"]] == [stored]
    assert [hit["name"] for hit in found["items"]] == [stored]
    # RFC 8187: the whole name; and what a client makes of the header that knows both forms.
    assert unquote(disposition.partition("filename*=UTF-8''")[2], errors="strict") == (name.saved or stored)
    assert read is not None
    assert read.filename == (name.saved or stored)
    assert disposition.isascii()


async def test_a_renamed_document_is_found_by_the_new_name_in_either_form(ingest: Ingest, editor: Person) -> None:
    document = await ingest.upload(editor, PDF)
    decomposed = unicodedata.normalize("NFD", "Übergabe.pdf")

    status, renamed = await ingest.call(editor, "PATCH", f"/v1/documents/{document['id']}", json={"name": decomposed})

    assert (status, renamed["name"]) == (200, "Übergabe.pdf")
    for query in ("Übergabe", unicodedata.normalize("NFD", "Übergabe"), "uebergabe"):
        _, found = await ingest.call(editor, "GET", "/v1/search", params={"q": query})
        assert [hit["name"] for hit in found["items"]] == ["Übergabe.pdf"], query


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\nb", "a\x7fb", "x" * 256, "契" * 256])
async def test_what_is_no_name_is_refused(ingest: Ingest, editor: Person, name: str) -> None:
    document = await ingest.upload(editor, PDF)
    body = {"filename": name, "mime_type": "application/pdf", "size": 1}

    announced, _ = await ingest.call(editor, "POST", "/v1/uploads", json=body)
    renamed, problem = await ingest.call(editor, "PATCH", f"/v1/documents/{document['id']}", json={"name": name})

    assert (announced, renamed, problem["type"]) == (422, 422, "/problems/name-refused")
