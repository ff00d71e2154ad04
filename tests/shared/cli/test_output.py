import pytest

from nexarch.cli.download import safe_name
from nexarch.cli.output import clean, highlighted, show_table, size


def test_a_text_cannot_move_the_cursor_or_turn_the_reading_direction() -> None:
    assert clean("a\x1b[2Jb\u202egpj.exe\x9b1m") == "a�[2Jb�gpj.exe�1m"


def test_a_cell_is_text_and_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["name"], [("[red]a[/red]",)])

    assert "[red]a[/red]" in capsys.readouterr().out


def test_a_row_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["name"], [("long " * 100,)])

    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_empty_table_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["name"], [])

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Nothing found.\n")


def test_hits_are_highlighted_in_a_text_of_one_line() -> None:
    text = highlighted([{"text": "the\n ", "hit": False}, {"text": "Möbiusband", "hit": True}])

    assert text.plain == "the Möbiusband"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["Möbiusband"]


@pytest.mark.parametrize(("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes_are_for_people(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        (".bashrc", "bashrc"),
        ("a\\b", "a_b"),
        ("..", "document"),
        ("ä" * 200, "ä" * 120),
        ("契" * 251 + ".pdf", "契" * 78 + ".pdf"),  # 240 bytes hold 78 of them and the extension
        ("a\x00b\n", "a�b�"),
    ],
)
def test_a_strangers_name_stays_in_its_folder(given: str, name: str) -> None:
    assert safe_name(given) == name
