"""The whole way: a file on disk, a child process, the text or the reason why there is none."""

from pathlib import Path

import docx
import pytest
from fpdf import FPDF
from fpdf.enums import AccessPermission, EncryptionMethod

from dms_worker.extract.errors import (
    DamagedFile,
    MemoryLimitExceeded,
    PasswordRequired,
    TimeLimitExceeded,
    UnsupportedKind,
)
from dms_worker.extract.limits import MIB, Limits
from dms_worker.extract.runner import ExtractedText, extract_text
from support.extracting import LIMITS, PDF, extract, letter, running_children
from support.pdf_by_hand import Run, pdf

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
UNKNOWN = "application/octet-stream"


async def test_a_pdf_gives_the_text_of_each_page(tmp_path: Path) -> None:
    extracted = await extract(tmp_path, letter("Erste Seite", "", "Dritte Seite: Möbiusband"), PDF)

    assert extracted.pages == ["Erste Seite", "", "Dritte Seite: Möbiusband"]
    assert extracted.page_count == 3
    assert not extracted.truncated


async def test_a_word_file_is_one_page_without_a_count(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Kündigung")
    document.save(str(tmp_path / "letter"))

    extracted = await extract_text(tmp_path / "letter", DOCX, LIMITS)

    assert extracted == ExtractedText(pages=["Kündigung"], page_count=None, truncated=False)


@pytest.mark.parametrize("mime_type", ["text/plain", "text/csv", "text/markdown; charset=utf-8", "TEXT/PLAIN"])
async def test_text_of_every_declared_type_is_read(tmp_path: Path, mime_type: str) -> None:
    extracted = await extract(tmp_path, "größer;\U0001f600;漢字\n".encode(), mime_type)

    assert extracted.pages == ["größer;\U0001f600;漢字"]


@pytest.mark.parametrize("mime_type", [PDF, UNKNOWN])
async def test_a_byte_order_mark_before_the_header_leaves_a_pdf_a_pdf(tmp_path: Path, mime_type: str) -> None:
    extracted = await extract(tmp_path, b"\xef\xbb\xbf" + letter("Hello World"), mime_type)

    assert extracted.pages == ["Hello World"]
    assert extracted.page_count == 1


async def test_an_empty_text_file_is_an_empty_page(tmp_path: Path) -> None:
    extracted = await extract(tmp_path, b"", "text/plain")

    assert extracted.pages == [""]


@pytest.mark.parametrize("mime_type", [PDF, DOCX])
async def test_an_empty_file_is_a_damaged_document(tmp_path: Path, mime_type: str) -> None:
    with pytest.raises(DamagedFile):
        await extract(tmp_path, b"", mime_type)


async def test_a_pdf_with_a_broken_cross_reference_table_is_still_read(tmp_path: Path) -> None:
    intact = pdf([[Run(72, 700, "Hello, world!")]])

    extracted = await extract(tmp_path, intact.replace(b"startxref\n", b"startxref\n9"), PDF)

    assert extracted.pages == ["Hello, world!"]


@pytest.mark.parametrize("data", [b"%PDF-1.4\n", b"%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n%%EOF", b"\0" * 99])
async def test_a_header_without_a_body_is_a_damaged_file(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DamagedFile):
        await extract(tmp_path, data, PDF)


async def test_an_encrypted_pdf_needs_its_password(tmp_path: Path) -> None:
    document = FPDF()
    document.set_encryption(
        owner_password="owner",
        user_password="user",
        encryption_method=EncryptionMethod.AES_256,
        permissions=AccessPermission.all(),
    )
    document.add_page()

    with pytest.raises(PasswordRequired) as caught:
        await extract(tmp_path, bytes(document.output()), PDF)

    assert caught.value.code == "password-required"
    assert "password" in caught.value.detail


@pytest.mark.parametrize(("data", "mime_type"), [(b"GIF89a\x01\0", "image/gif"), (b"GIF89a\x01\0", UNKNOWN)])
async def test_a_file_of_another_type_is_refused(tmp_path: Path, data: bytes, mime_type: str) -> None:
    with pytest.raises(UnsupportedKind):
        await extract(tmp_path, data, mime_type)


async def test_pages_beyond_the_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    kept = await extract(tmp_path, letter("a", "b", "c"), PDF, Limits(pages=2))

    assert kept == ExtractedText(pages=["a", "b"], page_count=3, truncated=True)


async def test_ten_thousand_pages_are_read_and_no_more(tmp_path: Path) -> None:
    extracted = await extract(tmp_path, pdf([[Run(72, 700, "a")]] * 10_001), PDF, Limits())

    assert extracted.pages == ["a"] * 10_000
    assert extracted.page_count == 10_001
    assert extracted.truncated


async def test_characters_beyond_the_limit_are_left_out(tmp_path: Path) -> None:
    of_pdf = await extract(tmp_path, letter("abcdef", "ghi", "jkl"), PDF, Limits(characters=8))
    of_text = await extract(tmp_path, b"abcdefghi" * 9, "text/plain", Limits(characters=8))

    assert of_pdf == ExtractedText(pages=["abcdef", "gh"], page_count=3, truncated=True)
    assert of_text == ExtractedText(pages=["abcdefgh"], page_count=None, truncated=True)


async def test_a_file_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TimeLimitExceeded):
        await extract(tmp_path, letter("slow"), PDF, Limits(wall_seconds=0.001))

    assert running_children() == []


async def test_processor_time_is_limited_too(tmp_path: Path) -> None:
    unordered_marks = "\u0301\u0316" * 200_000  # ordering them takes quadratic time

    with pytest.raises(TimeLimitExceeded):
        await extract(tmp_path, unordered_marks.encode(), "text/plain", Limits(cpu_seconds=1))


async def test_one_huge_allocation_is_a_memory_limit(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(2048 * MIB)

    with pytest.raises(MemoryLimitExceeded):
        await extract_text(tmp_path / "sparse", "text/plain", Limits(memory_bytes=64 * MIB, characters=2**30))


async def test_memory_that_grows_bit_by_bit_is_a_memory_limit(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitExceeded):
        await extract(
            tmp_path,
            "ä".encode() * 32 * MIB,
            "text/plain",
            Limits(memory_bytes=32 * MIB, characters=64 * MIB),
        )

    assert running_children() == []


async def test_text_at_the_limit_fits_into_the_answer_however_it_is_written(tmp_path: Path) -> None:
    wide = await extract(tmp_path, "\U0001f600".encode() * 9000, "text/plain", Limits(characters=9000))
    escaped = await extract(tmp_path, b'"\\' * 4500, "text/plain", Limits(characters=9000))

    assert wide.pages == ["\U0001f600" * 9000]
    assert escaped.pages == ['"\\' * 4500]
