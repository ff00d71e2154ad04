"""Lines with right-to-left letters, from places on the page to the order in which they are read.

PDFium takes every line for drawn from left to right and turns its right-to-left stretches round. That is
right for most producers, and wrong for those that draw in reading order, for ActualText, and for glyphs that
stand for several letters. Where the glyphs stand is the same in all cases, so we sort by that and undo the
display order with the rules of Unicode (UAX #9) as far as one line shows them.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

# Hebrew, Arabic, Syriac, Thaana, N'Ko and the presentation forms.
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")

_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_OPENING, _CLOSING = "([{", ")]}"
_SAME = 0.01  # points


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyph:
    """One character as PDFium places it, in points from the lower left corner of the page."""

    text: str
    origin: tuple[float, float]
    left: float
    right: float
    bottom: float
    top: float


@dataclass(slots=True)
class _Cluster:
    """What moves as one: the letters of one glyph or one ActualText with their marks, or a Latin word."""

    text: str
    left: float
    right: float

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


def logical_order(line: Sequence[Glyph]) -> str:
    """The text of one line, given in PDFium's order, as it is read."""
    right_to_left = _reads_right_to_left([_direction(glyph.text) for glyph in line])
    units = [_unit(glyphs, right_to_left=right_to_left) for glyphs in _same_place(line)]
    clusters = sorted(_with_words(_with_marks(units)), key=lambda cluster: cluster.middle)
    return _undo_display([cluster.text for cluster in clusters], right_to_left=right_to_left)


def _same_place(line: Sequence[Glyph]) -> list[list[Glyph]]:
    """Neighbours with one origin and one height: the letters of one glyph or of one ActualText.

    A mark may have the origin of its letter too, but has another height.
    """
    groups: list[list[Glyph]] = []
    for glyph in line:
        if groups and _is_same_place(groups[-1][-1], glyph):
            groups[-1].append(glyph)
        else:
            groups.append([glyph])
    return groups


def _is_same_place(one: Glyph, other: Glyph) -> bool:
    pairs = (*zip(one.origin, other.origin, strict=True), (one.bottom, other.bottom), (one.top, other.top))
    return all(abs(first - second) < _SAME for first, second in pairs)


def _unit(glyphs: Sequence[Glyph], *, right_to_left: bool) -> _Cluster:
    text = "".join(glyph.text for glyph in glyphs)
    if len(text) > 1 and RIGHT_TO_LEFT.search(text):
        if abs(glyphs[0].left - glyphs[-1].left) > _SAME:
            # PDFium shares the place among the letters of an ActualText, in the order that the file gives.
            text = "".join(glyph.text for glyph in sorted(glyphs, key=lambda glyph: glyph.left))
        elif text not in _ligatures():
            # The file gives these letters in reading order, and PDFium turned them round.
            text = _undo_display(list(text), right_to_left=right_to_left)
    return _Cluster(text, min(glyph.left for glyph in glyphs), max(glyph.right for glyph in glyphs))


@cache
def _ligatures() -> frozenset[str]:
    """The letters that Unicode has as one presentation form: PDFium expands those in reading order."""
    forms = (*range(0xFB1D, 0xFE00), *range(0xFE70, 0xFEFD))
    expanded = (unicodedata.normalize("NFKC", chr(form)) for form in forms)
    return frozenset(letters for letters in expanded if len(letters) > 1)


def _with_marks(units: Sequence[_Cluster]) -> list[_Cluster]:
    """The units, each mark joined to that neighbouring letter above whose middle it stands."""
    clusters: list[_Cluster] = []
    waiting: list[_Cluster] = []
    for unit in units:
        if all(unicodedata.combining(char) for char in unit.text):
            waiting.append(unit)
            continue
        for mark in waiting:
            near = [unit, *clusters[-1:]]
            min(near, key=lambda letter: abs(letter.middle - mark.middle)).text += mark.text
        waiting.clear()
        clusters.append(unit)
    for mark in waiting:
        if clusters:
            clusters[-1].text += mark.text
        else:
            return waiting
    return clusters


def _with_words(clusters: Sequence[_Cluster]) -> list[_Cluster]:
    """The clusters, letters and digits that PDFium has side by side from left to right made one."""
    words: list[_Cluster] = []
    inside = False
    for cluster in clusters:
        goes_on = inside
        inside = _direction(cluster.text) in ("L", "N")
        if inside and goes_on:
            words[-1].text += cluster.text
            words[-1].right = cluster.right
        else:
            words.append(cluster)
    return words


def _direction(text: str) -> str:
    """`R`, `L`, `N` for a number, `S` for what joins numbers, or empty: as its neighbours."""
    classes = {unicodedata.bidirectional(char) for char in text}
    if classes & {"R", "AL"}:
        return "R"
    if "L" in classes:
        return "L"
    if classes & {"EN", "AN"}:
        return "N"
    if classes & {"CS", "ES", "ET"}:
        return "S"
    return "R" if "NSM" in classes and RIGHT_TO_LEFT.search(text) else ""


def _reads_right_to_left(directions: Sequence[str]) -> bool:
    return directions.count("R") >= directions.count("L")


def _undo_display(shown: Sequence[str], *, right_to_left: bool) -> str:
    """What `shown`, from left to right on the page, says when it is read (UAX #9, rule L2 backwards)."""
    levels = _levels([_direction(text) for text in shown], right_to_left=right_to_left)
    read: list[tuple[str, int]] = []
    for turned, items in groupby(zip(shown, levels, strict=True), key=lambda item: item[1] >= 1):
        stretch = list(items)
        if not turned:
            read += stretch
            continue
        for turned_twice, inner in groupby(stretch[::-1], key=lambda item: item[1] == 2):
            run = list(inner)
            read += run[::-1] if turned_twice else run
    return _with_brackets_paired(read)


def _levels(directions: Sequence[str], *, right_to_left: bool) -> list[int]:
    """The embedding level of each: 1 is turned round, 2 (numbers and Latin within that) twice."""
    resolved = _numbers_joined(directions)
    strong = [direction if direction in ("R", "L") else "" for direction in resolved]
    around = zip(_nearest(strong), reversed(_nearest(strong[::-1])), strict=True)
    if right_to_left:
        levels = {"R": 1, "L": 2, "N": 2}
    else:
        levels = {"R": 1, "L": 0, "N": 0}
        resolved = [
            "E" if direction == "N" and sides == ("R", "R") else direction
            for direction, sides in zip(resolved, around, strict=True)
        ]
        levels["E"] = 2  # a number inside a right-to-left stretch of a left-to-right line
    outcome = []
    for direction, left, right in zip(resolved, _nearest(resolved), reversed(_nearest(resolved[::-1])), strict=True):
        if direction:
            outcome.append(levels[direction])
        elif "L" in (left, right) and {left, right} <= {"L", "N"}:
            outcome.append(levels["L"])
        elif {left, right} <= {"R", "E"}:
            outcome.append(1)
        else:
            outcome.append(1 if right_to_left else 0)
    return outcome


def _numbers_joined(directions: Sequence[str]) -> list[str]:
    """Separators between two numbers are part of them (12:30, 1,5); others are neutral."""
    padded = ["", *directions, ""]
    return [
        ("N" if padded[place] == padded[place + 2] == "N" else "") if direction == "S" else direction
        for place, direction in enumerate(directions)
    ]


def _nearest(directions: Sequence[str]) -> list[str]:
    """For each place the last direction before it, or empty."""
    found = [""]
    for direction in directions:
        found.append(direction or found[-1])
    return found[:-1]


def _with_brackets_paired(read: Sequence[tuple[str, int]]) -> str:
    """Some files name a bracket by its shape, some by its meaning: right is where more of them pair."""
    as_given = "".join(text for text, _ in read)
    mirrored = "".join(text.translate(_MIRRORED) if level == 1 else text for text, level in read)
    return mirrored if _unpaired(mirrored) < _unpaired(as_given) else as_given


def _unpaired(text: str) -> int:
    unpaired, open_brackets = 0, []
    for char in text:
        if char in _OPENING:
            open_brackets.append(char)
        elif char in _CLOSING:
            if open_brackets and open_brackets[-1] == char.translate(_MIRRORED):
                open_brackets.pop()
            else:
                unpaired += 1
    return unpaired + len(open_brackets)
