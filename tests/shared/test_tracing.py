import pytest

from nexarch.tracing import continue_trace, current_trace, parse_traceparent, traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "hello",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0x",
    ],
)
def test_what_the_specification_calls_invalid_begins_a_new_trace(value: str | None) -> None:
    assert parse_traceparent(value) is None
    assert continue_trace(value).trace.trace_id != TRACE


@pytest.mark.parametrize("value", [f"00-{TRACE}-{SPAN}-00", f"01-{TRACE}-{SPAN}-01-of-a-later-version"])
def test_a_trace_goes_on_with_a_span_of_our_own(value: str) -> None:
    trace = continue_trace(value).trace

    assert trace.trace_id == TRACE
    assert trace.span_id != SPAN
    assert current_trace() == trace
    assert traceparent() == f"00-{TRACE}-{trace.span_id}-{trace.flags}"
