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
    """A span: 16-byte trace id, 8-byte span id and flags, as lower-case hexadecimal."""

    trace_id: str
    span_id: str
    flags: str = "01"

    def __str__(self) -> str:
        """The value of a `traceparent` header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> "Trace":
        """A new span in the same trace."""
        return Trace(self.trace_id, _random_hex(8), self.flags)


current_trace: ContextVar[Trace | None] = ContextVar("current_trace", default=None)


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


def continue_trace(value: str | None) -> Trace:
    """A span of our own: under the `traceparent` given, else at the top of a new trace. Sets `current_trace`."""
    parent = parse_traceparent(value)
    trace = parent.child() if parent else new_trace()
    current_trace.set(trace)
    return trace


def traceparent() -> str | None:
    """The `traceparent` to pass on from here, or None outside any trace."""
    trace = current_trace.get()
    return None if trace is None else str(trace)
