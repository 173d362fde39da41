"""Draws the trace of one tree in docs/reference/traces.md: ``python -m tests.support.trace_picture`` runs the tree.

The picture lies between two comments, ``<!-- picture -->`` and ``<!-- end -->``. A test compares its names with those
of a run of its own; the times are those of the run that drew it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from functory.client.functory import Functory
from functory.engine.telemetry.trace_context import own_trace_id
from tests.support.trace_receiver import ReceivedSpan, receiving
from tests.support.world import embedded

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "traces.md"
BEGIN, END = "<!-- picture -->\n\n```text\n", "```\n\n<!-- end -->"
# Columns of names, and of the whole time.
NAMES, WIDTH = 36, 50

PARSE = "def parse(order):\n    return order\n"
LOAD = "from functory import call\n\ndef load(order):\n    return parse(order) + call('charge', x=1)\n"
CHARGE = "def charge(x):\n    raise ValueError('a secret text')\n"


def run(engine: Functory) -> str:
    """Run an event whose trigger starts ``load``, which calls ``parse`` and starts ``charge``. Returns the root."""
    engine.functions.save(PARSE)
    engine.functions.save(LOAD, dependencies=["parse"], limits={"retries": 0})
    engine.functions.save(CHARGE, limits={"retries": 0})
    engine.save_trigger("on-order", on={"type": ["order.created"]}, function="load", input={"order": 1})
    root = engine.emit("order.created", {"text": "a secret text"})
    engine.settle(root_id=root)
    return root


def tree(
    spans: Sequence[ReceivedSpan], parent: str = "", indent: str = ""
) -> Iterator[tuple[str, ReceivedSpan]]:
    """Each span with its name behind the lines of a tree."""
    children = sorted(
        (one for one in spans if one.parent_id == parent), key=lambda one: (one.start, one.name)
    )
    for number, span in enumerate(children, 1):
        last = number == len(children)
        branch = ("└─ " if last else "├─ ") if parent else ""
        yield indent + branch + span.name, span
        below = indent + (("   " if last else "│  ") if parent else "")
        yield from tree(spans, span.span_id, below)


def picture(spans: Sequence[ReceivedSpan]) -> str:
    """The spans of one trace as lines: names at the left, times at the right."""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    lines = []
    for name, span in tree(spans):
        begin, end = (round((at - first) / (last - first) * WIDTH) for at in (span.start, span.end))
        bar = " " * begin + ("█" * (end - begin) or "▏")
        took = f"{(span.end - span.start) / 1e6:.1f} ms" if span.end > span.start else ""
        lines.append(
            f"{name:<{NAMES}}{bar:<{WIDTH + 1}} {took:>9}{'  ' + span.error if span.error else ''}".rstrip()
        )
    return "\n".join(lines) + "\n"


def stored() -> str:
    """The picture of the page."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0]


def names(drawn: str) -> list[str]:
    """The column of names of a picture."""
    return [line[:NAMES].rstrip() for line in drawn.splitlines()]


def main() -> None:
    """Run the tree and write its picture into the page."""
    with receiving() as receiver, tempfile.TemporaryDirectory() as folder:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.endpoint
        with embedded(Path(folder), traces="on") as engine:
            # The processes of functions start once; the second tree shows what an engine does that runs.
            run(engine)
            root = run(engine)
    drawn = picture([span for span in receiver.spans if span.trace_id == own_trace_id(root)])
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + drawn + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
