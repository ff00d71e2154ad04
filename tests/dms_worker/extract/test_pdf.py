"""Text out of PDF, in this process: the order of letters, hyphens, pages that cannot be read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dms_worker.extract.clean import clean
from dms_worker.extract.errors import DamagedFile
from dms_worker.extract.limits import Limits
from dms_worker.extract.pdf import read_pdf
from support.pdf_by_hand import Run, assemble, pdf


def pages(folder: Path, data: bytes) -> list[str]:
    file = folder / "file.pdf"
    file.write_bytes(data)
    with file.open("rb") as opened:
        return [clean(page) for page in read_pdf(opened, Limits()).pages]


SHALOM = "שלום"
HABIBI = "حَبيبي"


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        pytest.param(SHALOM, [Run(100, 700, SHALOM[::-1])], id="drawn from left to right"),
        pytest.param(SHALOM, [Run(200, 700, SHALOM, advance=-6)], id="drawn from right to left"),
        pytest.param("אבג דהו", [Run(100, 700, "והד גבא")], id="two words, left to right"),
        pytest.param("אבג דהו", [Run(200, 700, "אבג דהו", advance=-6)], id="two words, right to left"),
        pytest.param("אבג דהו", [Run(200, 700, "גבא"), Run(170, 700, "והד")], id="words in reading order"),
        pytest.param("אבג 123 דהו", [Run(100, 700, "והד 123 גבא")], id="a number keeps its order"),
        pytest.param("מחיר 12,50 שח", [Run(100, 700, "חש 12,50 ריחמ")], id="a number with a separator"),
        pytest.param("אבגדה Word 7 הוזח", [Run(100, 700, "חזוה Word 7 הדגבא")], id="Latin words inside"),
        pytest.param(
            f"Hello {SHALOM} world",
            [Run(100, 700, "Hello "), Run(140, 700, SHALOM[::-1]), Run(170, 700, " world")],
            id="inside a Latin line, left to right",
        ),
        pytest.param(
            f"Hello {SHALOM} world",
            [Run(100, 700, "Hello "), Run(160, 700, SHALOM, advance=-6), Run(170, 700, " world")],
            id="inside a Latin line, right to left",
        ),
        pytest.param("ab אב 12 גד xyz xyz", [Run(100, 700, "ab דג 12 בא xyz xyz")], id="a number between"),
        pytest.param("(אב)", [Run(100, 700, "(בא)")], id="brackets named by their shape"),
        pytest.param("(אב)", [Run(200, 700, "(אב)", advance=-6)], id="brackets named by their meaning"),
        pytest.param(HABIBI, [Run(100, 700, "xyz", actual_text=HABIBI)], id="actual text"),
        pytest.param("سلام", [Run(100, 700, "م\ufefbس")], id="presentation form"),
        pytest.param("بحَ", [Run(100, 700, "ح"), Run(102, 700, "\u064e"), Run(108, 700, "ب")], id="mark in its place"),
        pytest.param("بحَ", [Run(100, 700, "ح"), Run(108, 700, "ب"), Run(102, 700, "\u064e")], id="mark drawn last"),
    ],
)
def test_right_to_left_text_comes_in_the_order_in_which_it_is_read(tmp_path: Path, text: str, runs: list[Run]) -> None:
    assert pages(tmp_path, pdf([runs])) == [text]


def test_a_glyph_of_two_letters_keeps_their_order(tmp_path: Path) -> None:
    lam_alef: Mapping[int, str] = {0xE000: "لا"}

    assert pages(tmp_path, pdf([[Run(100, 700, "م\ue000س")]], lam_alef)) == ["سلام"]


def test_right_to_left_lines_leave_the_others_as_they_are(tmp_path: Path) -> None:
    lines = [Run(72, 720, "Erste Zeile: Auﬂage"), Run(200, 700, SHALOM, advance=-6), Run(72, 680, "Dritte")]

    assert pages(tmp_path, pdf([lines])) == [f"Erste Zeile: Auflage\n{SHALOM}\nDritte"]


def test_a_word_broken_at_a_line_end_is_one_word(tmp_path: Path) -> None:
    lines = [Run(72, 720, "Eine Einführung in die Topolo-"), Run(72, 708, "gie der Mannigfaltigkeiten")]

    assert pages(tmp_path, pdf([lines])) == ["Eine Einführung in die Topologie der Mannigfaltigkeiten"]


def test_a_page_without_contents_is_empty(tmp_path: Path) -> None:
    assert pages(tmp_path, pdf([[], [Run(72, 700, "zwei")]])) == ["", "zwei"]


def test_a_page_that_cannot_be_read_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    intact = pdf([[Run(72, 700, "eins")], [Run(72, 700, "zwei")]])

    assert pages(tmp_path, intact.replace(b"7 0 obj\n<</Type/Page/", b"7 0 obj\n<</Type/Pgae ")) == ["", "zwei"]


def test_a_file_without_pages_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile):
        pages(tmp_path, assemble(["<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 0/Kids[]>>"]))


def test_unmapped_codes_lone_surrogates_and_nul_are_no_trouble(tmp_path: Path) -> None:
    strange = {1: "\u0000", 2: "\uffff", 3: "\U0001f600"}

    [text] = pages(tmp_path, pdf([[Run(72, 700, "a\x01b\x02c\x03d")]], strange))

    assert text.encode()
    assert text.replace("\U0001f600", "") == "abcd"
