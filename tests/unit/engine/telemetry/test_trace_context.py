"""The header of W3C Trace Context: what is taken from it, and that ids are those of the rows."""

from __future__ import annotations

import uuid

import pytest

from functory.engine.telemetry.trace_context import TraceContext, header_of, own_trace_id, parse, span_id

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        # Flags that are not known yet.
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        # A later version may have more at its end.
        (f"cc-{TRACE}-{SPAN}-01-more", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
    ],
)
def test_a_context_is_read(text: str, sampled: bool) -> None:
    assert parse(text) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 600,
    ],
)
def test_what_is_no_context_is_none(text: object) -> None:
    assert parse(text) is None


def test_a_context_is_written_as_it_was_read() -> None:
    for flags in ("00", "01"):
        text = f"00-{TRACE}-{SPAN}-{flags}"
        found = parse(text)
        assert found is not None and found.header() == text


def test_a_request_has_one_header() -> None:
    one = ("traceparent", f"00-{TRACE}-{SPAN}-01")
    assert header_of([("host", "x"), one]) == one[1]
    assert header_of([]) is None
    assert header_of([one, one]) is None, "it is unclear which one holds"
    assert header_of([("traceparent", "00-no")]) is None


def test_ids_are_valid_and_differ_by_kind_and_row() -> None:
    rows = [str(uuid.uuid4()) for _ in range(100)]
    spans = {span_id(kind, row) for kind in ("event", "route") for row in rows}
    assert len(spans) == 200
    assert all(parse(TraceContext(own_trace_id(rows[0]), span, True).header()) is not None for span in spans)
