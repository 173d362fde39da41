"""Trace contexts: ids of traces and spans, and the header ``traceparent`` that carries them. Pure.

The header is that of W3C Trace Context (https://www.w3.org/TR/trace-context/, section 3.2). Ids are derived from ids of
rows, so every process knows the span of a row without being told: the trace of a causal tree is the id of its root, and
a span has eight bytes of a hash. A tree whose root came from outside with a trace context keeps that trace.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

HEADER = "traceparent"

_FORM = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII,
)
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of a trace, as hexadecimal ids, and whether its sender records it."""

    trace_id: str
    span_id: str
    sampled: bool

    def header(self) -> str:
        """Return the value of a header ``traceparent``."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse(text: object) -> TraceContext | None:
    """Return the trace context of a header's value; None for a text that has none."""
    parts = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= 512 else None
    if parts is None or parts["version"] == "ff" or (parts["version"] == "00" and parts["more"]):
        return None
    if not (parts["trace"].strip("0") and parts["span"].strip("0")):
        return None
    return TraceContext(parts["trace"], parts["span"], bool(int(parts["flags"], 16) & _SAMPLED))


def header_of(headers: Iterable[tuple[str, str]]) -> str | None:
    """Return the trace context of a request's headers (lower-case names) as text; None without exactly one."""
    given = [value.strip() for name, value in headers if name == HEADER]
    return given[0] if len(given) == 1 and parse(given[0]) is not None else None


def own_trace_id(root_id: str) -> str:
    """Return the id of the trace of a tree whose root brought none."""
    return root_id.replace("-", "")


def span_id(kind: str, *ids: object) -> str:
    """Return the id of the span of a row: ``kind`` and the key of the row identify it."""
    return hashlib.blake2b("/".join([kind, *map(str, ids)]).encode(), digest_size=8).hexdigest()


def event_span(event_id: str) -> str:
    """Return the id of the span of an event."""
    return span_id("event", event_id)


def route_span(event_id: str) -> str:
    """Return the id of the span in which an event is routed."""
    return span_id("route", event_id)


def firing_span(trigger_id: str, event_id: str) -> str:
    """Return the id of the span of a firing."""
    return span_id("firing", trigger_id, event_id)


def execution_span(execution_id: str) -> str:
    """Return the id of the span of an execution, from its creation to its end."""
    return span_id("execution", execution_id)


def attempt_span(execution_id: str, fence: int) -> str:
    """Return the id of the span of an attempt."""
    return span_id("attempt", execution_id, fence)
