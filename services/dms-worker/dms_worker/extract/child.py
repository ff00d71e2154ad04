"""The child process, `python -I -m dms_worker.extract.child KIND PARENT LIMITS`.

The file comes on stdin, the answer goes to stdout as one JSON object: `{"pages": [...], "page_count": n or
null, "truncated": bool}` or `{"unreadable": code}`. The exit status is 0 with an answer, anything else without one.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from dms_worker.extract.clean import clean
from dms_worker.extract.confine import confine, write_no_file
from dms_worker.extract.content import Content
from dms_worker.extract.errors import MemoryLimitExceeded, ParserCrashed, Unreadable
from dms_worker.extract.kinds import Kind, kind_of_bytes
from dms_worker.extract.limits import Limits

Answer = dict[str, list[str] | int | bool | str | None]


def main() -> None:
    """Confine, read, answer."""
    kind, parent, limits = Kind(sys.argv[1]), int(sys.argv[2]), Limits(**json.loads(sys.argv[3]))
    confine(limits, parent)
    sys.stdout.buffer.write(_answer(sys.stdin.buffer, kind, limits))
    sys.stdout.buffer.flush()


def _answer(file: BinaryIO, kind: Kind, limits: Limits) -> bytes:
    try:
        return _encoded(_extract(file, kind_of_bytes(file) if kind is Kind.UNKNOWN else kind, limits))
    except Unreadable as error:
        return _encoded({"unreadable": error.code})
    except MemoryError:
        return _encoded({"unreadable": MemoryLimitExceeded.code})
    except ImportError:
        raise  # a broken installation, not a broken file
    except Exception:  # noqa: BLE001 - a library that stumbles over hostile bytes may raise anything
        return _encoded({"unreadable": ParserCrashed.code})


def _encoded(answer: Answer) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode()


def _extract(file: BinaryIO, kind: Kind, limits: Limits) -> Answer:
    read = _reader(kind)
    write_no_file()  # only now: an import may leave its bytecode for the next child
    content = read(file, limits)
    pages, cut = _within(content.pages, limits)
    return {"pages": pages, "page_count": content.page_count, "truncated": cut or content.cut}


def _reader(kind: Kind) -> Callable[[BinaryIO, Limits], Content]:
    """Only the reader that is needed is imported: the one for PDF costs as much time as all the rest."""
    if kind is Kind.PDF:
        from dms_worker.extract.pdf import read_pdf  # noqa: PLC0415

        return read_pdf
    if kind is Kind.DOCX:
        from dms_worker.extract.docx import read_docx  # noqa: PLC0415

        return read_docx
    from dms_worker.extract.plain import read_text  # noqa: PLC0415

    return read_text


def _within(pages: Iterator[str], limits: Limits) -> tuple[list[str], bool]:
    """The cleaned pages up to the limits, and whether anything was left out."""
    cleaned: list[str] = []
    left = limits.characters
    for page in pages:
        if len(cleaned) == limits.pages:
            return cleaned, True
        text = clean(page)
        cleaned.append(text[:left])
        if len(text) > left:
            return cleaned, True
        left -= len(text)
    return cleaned, False


if __name__ == "__main__":
    main()
