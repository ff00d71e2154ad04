"""Text as a search wants it: one form per character, nothing that cannot be seen or stored.

Pure functions; `clean` is idempotent.
"""

import re
import unicodedata

# PDFium writes this non-character for a hyphen that ends a line, and leaves the line break out.
LINE_END_HYPHEN = "\ufffe"

_LINE_END_HYPHEN = re.compile(rf"([^{LINE_END_HYPHEN}\n]?){LINE_END_HYPHEN}\s*(?=(\w*))")
_CONJUNCTIONS = frozenset(("und", "oder", "bzw", "bis", "sowie", "and", "or"))
_SOFT_HYPHEN = re.compile("\u00ad[ \t]*(?:\r\n?|\n)?")
_LINE_BREAK = re.compile("[\r\u0085\u2028\u2029]")
_UNWANTED = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed; Postgres stores no NUL
    "\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"  # zero-width space, direction marks, BOM
    "\ud800-\udfff"  # lone surrogates: no UTF-8 for them
    "\ufdd0-\ufdef"
    + "".join(f"{chr(0x10000 * plane + 0xFFFE)}{chr(0x10000 * plane + 0xFFFF)}" for plane in range(17))
    + "]+"
)
# These match only what must change, not every blank and every line break.
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_AROUND_BREAK = re.compile(" \n ?|\n ")
_EMPTY_LINES = re.compile("\n{3,}")


def clean(text: str) -> str:
    """`text` in NFKC (ligatures expanded), control characters, soft hyphens with a line break after them,
    lone surrogates and non-characters dropped, runs of blanks folded, at most one empty line."""
    text = _SOFT_HYPHEN.sub("", text)
    text = _LINE_BREAK.sub("\n", text.replace("\r\n", "\n"))
    if not text.replace("\n", "").isprintable():  # ten times as fast as the search, and mostly enough
        text = _UNWANTED.sub("", text)
    text = unicodedata.normalize("NFKC", text)
    text = _BLANKS.sub(" ", text)
    text = _AROUND_BREAK.sub("\n", text)
    return _EMPTY_LINES.sub("\n\n", text).strip()


def join_broken_words(text: str) -> str:
    """`text` with each LINE_END_HYPHEN gone inside a word (Topolo-gie), else a real hyphen (Schwarz-Weiß, Ein- und)."""
    return _LINE_END_HYPHEN.sub(_joined, text) if LINE_END_HYPHEN in text else text


def _joined(broken: re.Match[str]) -> str:
    before, after = broken[1], broken[2]
    if after in _CONJUNCTIONS:
        return f"{before}- "
    return before if before.isalpha() and after[:1].islower() else f"{before}-"
