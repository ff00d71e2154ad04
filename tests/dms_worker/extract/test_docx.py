"""Text out of Word files, and what hostile packages run into."""

import io
import zipfile
from collections.abc import Mapping

import docx
import pytest

from dms_worker.extract.clean import clean
from dms_worker.extract.docx import read_docx
from dms_worker.extract.errors import DamagedFile, PasswordRequired, UnpacksTooLarge, UnsupportedKind
from dms_worker.extract.limits import MIB, Limits

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT_WORD = "http://purl.oclc.org/ooxml/wordprocessingml/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def text_of(data: bytes, limits: Limits | None = None) -> str:
    [page] = read_docx(io.BytesIO(data), limits or Limits()).pages
    return clean(page)


def package(document: str, others: Mapping[str, str] | None = None, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A package with this main document."""
    main = f'<Relationship Type="{RELATIONS}/officeDocument" Target="word/document.xml"/>'
    parts = {"_rels/.rels": relations(main), "word/document.xml": document} | dict(others or {})
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


def relations(content: str) -> str:
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{content}</Relationships>'
    )


def body(content: str, space: str = WORD) -> str:
    return (
        f'<w:document xmlns:w="{space}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
        f'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:body>{content}</w:body></w:document>'
    )


def test_everything_that_a_reader_sees_comes_in_the_order_of_reading() -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Kopfzeile"
    document.sections[0].footer.paragraphs[0].text = "Fußzeile"
    document.add_heading("Überschrift")
    document.add_paragraph("Erster\tAbsatz\nneue Zeile")
    table = document.add_table(rows=2, cols=2)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"Zelle {number}"
    document.add_paragraph("Danach")
    saved = io.BytesIO()
    document.save(saved)

    text = text_of(saved.getvalue())

    assert text.split("\n") == [
        "Kopfzeile",
        "Überschrift",
        "Erster Absatz",
        "neue Zeile",
        "Zelle 0 Zelle 1",
        "Zelle 2 Zelle 3",
        "Danach",
        "Fußzeile",
    ]


@pytest.mark.parametrize("space", [WORD, STRICT_WORD])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<w:p><w:r><w:t>Donau</w:t><w:softHyphen/><w:t>dampf</w:t></w:r></w:p>", "Donaudampf"),
        ("<w:p><w:r><w:t>a</w:t><w:noBreakHyphen/><w:t>b</w:t></w:r></w:p>", "a-b"),
        ("<w:p><w:pPr><w:tabs><w:tab w:val='left'/></w:tabs></w:pPr><w:r><w:t>a</w:t></w:r></w:p>", "a"),
        (
            "<w:p><w:del><w:delText>weg</w:delText></w:del><w:ins><w:r><w:t>da</w:t></w:r></w:ins></w:p>",
            "da",
        ),
        ("<w:p><w:moveFrom><w:r><w:t>Satz</w:t></w:r></w:moveFrom></w:p><w:p><w:r><w:t>Satz</w:t></w:r></w:p>", "Satz"),
        ("<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><m:oMath><m:r><m:t>x+y</m:t></m:r></m:oMath></w:p>", "x+y"),
        (
            "<w:p><mc:AlternateContent><mc:Choice><w:t>Kasten</w:t></mc:Choice>"
            "<mc:Fallback><w:t>Kasten</w:t></mc:Fallback></mc:AlternateContent></w:p>",
            "Kasten",
        ),
        ("<w:p><w:r><w:t>&amp;&#228;&lt;</w:t></w:r></w:p>", "&ä<"),
    ],
)
def test_only_text_that_stands_in_the_document_is_read(space: str, content: str, text: str) -> None:
    assert text_of(package(body(content, space))) == text


def test_footnotes_follow_the_document_and_external_parts_are_never_opened() -> None:
    related = relations(
        f'<Relationship Type="{RELATIONS}/footnotes" Target="/word/footnotes.xml"/>'
        f'<Relationship Type="{RELATIONS}/header" Target="http://localhost/h.xml" TargetMode="External"/>'
    )
    note = body("<w:p><w:r><w:t>Anmerkung</w:t></w:r></w:p>")
    others = {"word/_rels/document.xml.rels": related, "word/footnotes.xml": note}

    assert text_of(package(body("<w:p><w:r><w:t>Text</w:t></w:r></w:p>"), others)) == "Text\nAnmerkung"


def test_a_text_longer_than_the_limit_is_cut() -> None:
    content = read_docx(io.BytesIO(package(body("<w:t>abc</w:t>" * 99))), Limits(characters=10))

    assert content.cut
    assert "".join(content.pages).startswith("abcabcabca")


def test_a_zip_bomb_is_left_as_soon_as_it_exceeds_the_limit() -> None:
    bomb = package(body("<w:p/>" * 500_000))

    with pytest.raises(UnpacksTooLarge):
        text_of(bomb, Limits(unpacked_bytes=MIB))

    assert len(bomb) < MIB // 10


def test_a_package_of_very_many_members_is_refused() -> None:
    with pytest.raises(UnpacksTooLarge):
        text_of(package(body(""), {f"word/{number}.xml": "" for number in range(10_001)}))


BILLION_LAUGHS = (
    '<!DOCTYPE lolz [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(BILLION_LAUGHS + body("<w:p><w:t>&i;</w:t></w:p>"), id="billion laughs"),
        pytest.param('<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + body("<w:t>&e;</w:t>"), id="file read"),
        pytest.param("", id="empty"),
        pytest.param(body("<w:p>")[:-20], id="cut off"),
        pytest.param("no XML", id="no XML"),
    ],
)
def test_a_document_that_is_no_lawful_xml_is_damaged(document: str) -> None:
    with pytest.raises(DamagedFile):
        text_of(package(document))


def test_a_package_that_is_cut_off_is_damaged() -> None:
    with pytest.raises(DamagedFile):
        text_of(package(body("<w:p/>"))[:-40])


def test_bytes_that_fail_their_checksum_are_damaged() -> None:
    stored = package(body("<w:p><w:t>richtig</w:t></w:p>"), compression=zipfile.ZIP_STORED)

    with pytest.raises(DamagedFile):
        text_of(stored.replace(b"richtig", b"falsch!"))


@pytest.mark.parametrize("offset", [12, 16])
def test_a_directory_that_points_anywhere_is_damaged(offset: int) -> None:
    damaged = bytearray(package(body("<w:p/>")))
    end = damaged.rfind(b"PK\x05\x06")
    damaged[end + offset : end + offset + 4] = b"\xff\xff\xff\x7f"

    with pytest.raises(DamagedFile):
        text_of(bytes(damaged))


def test_a_workbook_called_a_document_is_of_another_type() -> None:
    with pytest.raises(UnsupportedKind):
        text_of(package('<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"/>'))


def test_a_package_without_a_main_document_is_damaged() -> None:
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w"):
        pass

    with pytest.raises(DamagedFile):
        text_of(empty.getvalue())


def test_a_word_file_with_a_password_is_told_from_one_of_old() -> None:
    ole = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504)

    with pytest.raises(PasswordRequired):
        text_of(ole + "EncryptedPackage".encode("utf-16-le"))
    with pytest.raises(UnsupportedKind):
        text_of(ole + "WordDocument".encode("utf-16-le"))


def test_a_member_encrypted_by_the_zip_needs_a_password() -> None:
    intact = package(body("<w:p/>"))
    encrypted = bytearray(intact)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = intact.find(signature)
        while place >= 0:
            encrypted[place + flags] |= 1
            place = intact.find(signature, place + 1)

    with pytest.raises(PasswordRequired):
        text_of(bytes(encrypted))
