"""Values of metadata fields, each in the column of its field's type: text, number, date, bool, select. No SQL."""

import re
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from dms_ingest.names import composed
from nexarch.errors import Invalid

FieldValue = str | bool | int | float

_DIGITS = re.compile(r"-?[0-9]{1,309}(\.[0-9]{1,300})?", re.ASCII)
_DOUBLE_DIGITS = 15  # a decimal number of so many digits comes back from an IEEE 754 double as it was
_LONGEST_TEXT = 10_000


class ValueRefused(Invalid):
    """The value does not fit the type of its field."""

    code = "value-refused"
    title = "The value does not fit the field"


class Columns(NamedTuple):
    """A value in the column of its type; the others are None."""

    text: str | None = None
    number: Decimal | None = None
    day: str | None = None  # ISO 8601: of a `date` the driver writes the first and the last one as infinity
    yes: bool | None = None
    select: str | None = None


def typed(field_type: str, value: FieldValue) -> Columns:
    """The value in the column of its type: text, number, date, bool, select. Raises ValueRefused for another type."""
    match field_type, value:
        case "bool", bool():
            return Columns(yes=value)
        case "number", int() | float() | str() if not isinstance(value, bool):
            return Columns(number=_number(value))
        case "date", str():
            return Columns(day=_date(value))
        case "text", str():
            return Columns(text=_text(value))
        case "select", str():
            return Columns(select=_text(composed(value)))
    raise ValueRefused(f"A field of type {field_type} does not take this value.", field_type=field_type)


def number_as_json(number: Decimal) -> FieldValue:
    """A whole number is an integer; one with a point and over 15 digits a string, since readers would lose some."""
    if number == number.to_integral_value():
        return int(number)
    if len(number.normalize().as_tuple().digits) <= _DOUBLE_DIGITS:
        return float(number)
    return f"{number:f}"


def _number(value: float | str) -> Decimal:
    """The number that was meant, to the last digit, or none: a double holds 15 digits for certain."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueRefused(
            "A number is written as -1234.5, with at most 309 digits before the point.", field_type="number"
        )
    number = Decimal(str(value))
    if not number.is_finite() or number.adjusted() > 308:
        raise ValueRefused("A number is finite and below 10^309.", field_type="number")
    if isinstance(value, float) and len(number.normalize().as_tuple().digits) > _DOUBLE_DIGITS:
        raise ValueRefused(
            'A number with a point and more than 15 digits is sent as a string, "0.1234567890123456": as a number it '
            "would lose some.",
            field_type="number",
        )
    return number


def _text(value: str) -> str:
    if not 1 <= len(value) <= _LONGEST_TEXT or "\x00" in value:
        raise ValueRefused("A text has 1 to 10,000 characters, none of them NUL.")
    return value


def _date(value: str) -> str:
    try:
        parsed = date.fromisoformat(value)
    except ValueError as error:
        raise ValueRefused("A date is written as 2024-12-31.", field_type="date") from error
    if parsed.isoformat() != value:  # other forms of ISO 8601, as 20241231 and 2024-W01-1
        raise ValueRefused("A date is written as 2024-12-31.", field_type="date")
    return value
