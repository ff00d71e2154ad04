"""The order of letters, from their places alone; real files are in test_pdf."""

from hypothesis import given
from hypothesis import strategies as st

from dms_worker.extract.bidi import Glyph, logical_order

places = st.integers(0, 20).map(float)
glyphs = st.builds(
    lambda char, left, bottom: Glyph(
        text=char, origin=(left, 0.0), left=left, right=left + 1, bottom=bottom, top=bottom + 1
    ),
    st.sampled_from("abc 12,.()[]%-אבגسلا\u064e\u0651\ufffe"),
    places,
    places,
)
MIRRORED = str.maketrans(")]", "([")


@given(st.lists(glyphs, max_size=30))
def test_no_letter_is_lost_or_made_up_wherever_it_stands(line: list[Glyph]) -> None:
    read = logical_order(line)

    given_text = "".join(glyph.text for glyph in line)
    assert sorted(read.translate(MIRRORED)) == sorted(given_text.translate(MIRRORED))


@given(st.lists(st.text("אבגדהוזח", min_size=1, max_size=5), min_size=1, max_size=5))
def test_words_of_letters_from_right_to_left_are_read_from_the_right(words: list[str]) -> None:
    text = " ".join(words)
    line = [
        Glyph(text=char, origin=(-place, 0), left=-place, right=1 - place, bottom=0, top=1)
        for place, char in enumerate(text)
    ]

    assert logical_order(line) == text
    assert logical_order(line[::-1]) == text
