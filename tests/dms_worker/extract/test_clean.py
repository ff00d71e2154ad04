import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dms_worker.extract.clean import clean, join_broken_words


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Au\ufb02age", "Auflage"),
        ("e\ufb03zient \ufb01nden \ufb00", "effizient finden ff"),
        ("Mu\u0308ller", "M\u00fcller"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ ①", "Full width 1"),
        ("a\x00b\x01c\x7fd\x9fe", "abcde"),
        ("Donau\u00addampf\u00adschiff", "Donaudampfschiff"),
        ("Topolo\u00ad\ngie", "Topologie"),
        ("Topolo\u00ad \r\ngie", "Topologie"),
        ("a\ud800b\udfffc", "abc"),
        ("a\ufffeb\uffffc\ufdd0d\U0001ffffe", "abcde"),
        ("\ufeffBOM", "BOM"),
        ("zero\u200bwidth \u202eturned\u202c", "zerowidth turned"),
        ("a \t\u00a0\u2003 b", "a b"),
        ("  a  \r\n  b\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("a\n\n \n\n\nb", "a\n\nb"),
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", ""),
        (" \n\t\x00", ""),
    ],
)
def test_text_is_brought_into_the_form_that_a_search_wants(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@given(st.text(st.characters(categories=None)) | st.text("a\u0301\u00ad\r\n\t \u00a0\ufffe\ud800\x00\u2028\ufdfa"))
def test_clean_text_can_be_stored_and_stays_as_it_is(raw: str) -> None:
    cleaned = clean(raw)

    cleaned.encode()
    assert "\x00" not in cleaned
    assert "\u00ad" not in cleaned
    assert unicodedata.is_normalized("NFKC", cleaned)
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("raw", "joined"),
    [
        ("Topolo\ufffegie", "Topologie"),
        ("Topolo\ufffe\r\ngie", "Topologie"),
        ("Schwarz\ufffeWeiß", "Schwarz-Weiß"),
        ("2010\ufffe2012", "2010-2012"),
        ("Ein\ufffeund Ausgabe", "Ein- und Ausgabe"),
        ("Freund\ufffeundlich", "Freundundlich"),
        ("am Ende\ufffe", "am Ende-"),
        ("\ufffe\ufffea", "--a"),
    ],
)
def test_a_hyphen_at_a_line_end_stays_only_where_it_belongs_to_the_word(raw: str, joined: str) -> None:
    assert join_broken_words(raw) == joined
