import pytest

from nexarch.cli.media_types import media_type


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("a.PDF", "application/pdf"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.md", "text/markdown"),
        ("a.txt", "text/plain"),
        ("a.txt.gz", "application/octet-stream"),
        ("README", "application/octet-stream"),
    ],
)
def test_the_type_of_a_file_is_told_by_its_name_alone(filename: str, expected: str) -> None:
    assert media_type(filename) == expected
