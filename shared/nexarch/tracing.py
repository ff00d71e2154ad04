"""W3C Trace Context (https://www.w3.org/TR/trace-context-1/): the trace a request or a job belongs to.

A service takes the `traceparent` it is sent, makes a span of its own under it, logs both ids and passes its own
span on: in HTTP calls and in the row of each job.
"""

import random
import re
from contextvars import ContextVar
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Trace(NamedTuple):
    """The ids of a span: 16 bytes of its trace, 8 of its own, and flags, as lower-case hexadecimal."""

    trace_id: str
    span_id: str
    flags: str = "01"

    def __str__(self) -> str:
        """The value of a `traceparent` header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> "Trace":
        """A new span in the same trace."""
        return Trace(self.trace_id, _random_hex(8), self.flags)


class Span:
    """What we do for one request or job. Its ids are made when somebody asks for them: hardly any job logs or calls."""

    __slots__ = ("_parent", "_trace")

    def __init__(self, parent: str | None) -> None:
        self._parent = parent
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The ids: under the `traceparent` given, else at the top of a new trace."""
        if self._trace is None:
            parent = parse_traceparent(self._parent)
            self._trace = parent.child() if parent else new_trace()
        return self._trace


_current: ContextVar[Span | None] = ContextVar("current_span", default=None)


def new_trace() -> Trace:
    """The first span of a new trace."""
    both = _random_hex(24)
    return Trace(both[:32], both[32:])


def _random_hex(size: int) -> str:
    """So many random bytes. Ids are no secrets, and the operating system's randomness costs a call each time."""
    return f"{random.getrandbits(8 * size):0{2 * size}x}"


def parse_traceparent(value: str | None) -> Trace | None:
    """Read a `traceparent`; None for anything the specification calls invalid, so that a new trace begins."""
    match = _TRACEPARENT.fullmatch(value.strip()) if value is not None else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    invalid_version = version == "ff" or (version == "00" and rest is not None)
    if invalid_version or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Trace(trace_id, span_id, flags)


def continue_trace(value: str | None) -> Span:
    """A span of our own, under the `traceparent` given: the current one from now on."""
    span = Span(value)
    _current.set(span)
    return span


def current_trace() -> Trace | None:
    """The ids of the current span, or None outside any trace."""
    span = _current.get()
    return None if span is None else span.trace


def traceparent() -> str | None:
    """The `traceparent` to pass on from here, or None outside any trace."""
    trace = current_trace()
    return None if trace is None else str(trace)
