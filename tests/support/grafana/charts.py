"""Lines and heat maps as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

Values = Sequence[tuple[float, float]]
Span = tuple[float, float]

PALETTE = (
    "#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300",
)  # fmt: skip
# The place of the numbers beside the lines, of the times below them, and of the legend.
LEFT, BELOW, LEGEND, LEGEND_LINE = 62, 16, 190, 13


class Line(NamedTuple):
    """A line of a chart."""

    name: str
    colour: str
    values: Values


def format_value(value: float, unit: str) -> str:
    """A value in words, by the name of a unit of Grafana."""
    if math.isnan(value):
        return "NaN"
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "currencyUSD":
        return f"${value:,.2f}"
    if unit == "s":
        if value and abs(value) < 1:
            return f"{value * 1000:.3g} ms"
        return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"
    steps, words = (1024, ("B", "KiB", "MiB", "GiB")) if unit == "bytes" else (1000, ("", "K", "M", "G"))
    place = 0
    while abs(value) >= steps and place < len(words) - 1:
        value, place = value / steps, place + 1
    ending = {"ops": "/s", "reqps": "/s"}.get(unit, "")
    return f"{value:.3g}{' ' if words[place] else ''}{words[place]}{ending}"


def sparkline(values: Values, span: Span, width: int, height: int) -> str:
    """A line without axes."""
    top = max((value for _, value in values), default=0.0) or 1.0
    points = _points(values, span, (0.0, top), width, height)
    line = f"<polyline points='{points}' fill=none stroke='#fff' stroke-width=1.5 />"
    return f"<svg width={width} height={height}>{line}</svg>"


def courses(
    lines: Sequence[Line],
    span: Span,
    width: int,
    height: int,
    *,
    unit: str,
    stacked: bool = False,
    critical: float | None = None,
    marks: Sequence[tuple[float, str, str]] = (),
) -> str:
    """Lines with axes and a legend that has the last value of each. ``marks`` are times with a colour and a text."""
    beside = width > 500
    shown = sorted(lines, key=_last, reverse=True)[:10]
    legend_height = 0 if beside else LEGEND_LINE * len(shown[:4]) + 4
    right, bottom = (width - LEGEND if beside else width) - LEFT, height - BELOW - legend_height
    drawn = _stacked(lines) if stacked else [line.values for line in lines]
    top = max((value for values in drawn for _, value in values if math.isfinite(value)), default=0.0)
    if critical is not None:
        top = max(top, critical * 1.1)
    # The highest line is no edge.
    top = 1.05 * top or 1.0
    parts = [f"<svg width={width} height={height}>", *_axes(span, top, unit, right, bottom)]
    for at, colour, text in marks:
        x = LEFT + _x(at, span, right)
        parts.append(
            f"<line x1={x:.1f} x2={x:.1f} y1=0 y2={bottom} stroke='{colour}' stroke-dasharray='3 2'><title>"
            f"{escape(text)}</title></line>"
        )
    if critical is not None:
        y = bottom * (1 - critical / top)
        parts.append(f"<line x1={LEFT} x2={LEFT + right} y1={y:.1f} y2={y:.1f} stroke='#e02f44' />")
    for line, values in [*zip(lines, drawn, strict=True)][::-1]:
        points = _points(values, span, (0.0, top), right, bottom)
        if stacked and values:
            first, last = (LEFT + _x(at, span, right) for at in (values[0][0], values[-1][0]))
            area = f"{first:.1f},{bottom} {_moved(points)} {last:.1f},{bottom}"
            parts.append(f"<polygon points='{area}' fill='#fff' />")
            parts.append(f"<polygon points='{area}' fill='{line.colour}' fill-opacity=0.5 />")
        parts.append(
            f"<polyline points='{_moved(points)}' fill=none stroke='{line.colour}' stroke-width=1.5 />"
        )
    x, y = (width - LEGEND + 12, 4) if beside else (LEFT, bottom + BELOW + 4)
    for number, line in enumerate(shown if beside else shown[:4]):
        at = y + LEGEND_LINE * (number + 0.7)
        value = format_value(line.values[-1][1], unit) if line.values else ""
        parts.append(
            f"<rect x={x} y={at - 7:.1f} width=8 height=3 fill='{line.colour}' /><text x={x + 12} y={at:.1f}>"
            f"{escape(line.name[:24])}  {escape(value)}</text>"
        )
    return "".join([*parts, "</svg>"])


def heatmap(buckets: Sequence[tuple[str, Mapping[float, float]]], span: Span, width: int, height: int) -> str:
    """The counts of each bucket over time. ``buckets`` are cumulative, with their upper bounds, lowest first."""
    times = sorted({at for _, counts in buckets for at in counts})
    if len(times) < 2:
        return ""
    right, bottom = width - LEFT, height - BELOW
    cells: list[tuple[int, float, float]] = []
    for at in times:
        below = 0.0
        for row, (_, counts) in enumerate(buckets):
            cells.append((row, at, max(0.0, counts.get(at, below) - below)))
            below = counts.get(at, below)
    most = max(count for _, _, count in cells) or 1.0
    high, wide = bottom / len(buckets), right / (len(times) - 1)
    parts = [f"<svg width={width} height={height}>"]
    for row, at, count in cells:
        if count:
            x, y = LEFT + _x(at, span, right) - wide, bottom - high * (row + 1)
            parts.append(
                f"<rect x={x:.1f} y={y:.1f} width={wide + 0.5:.1f} height={high:.1f} fill='#d9480f' "
                f"fill-opacity={0.1 + 0.9 * count / most:.2f} />"
            )
    for row, (bound, _) in enumerate(buckets):
        if row % max(1, len(buckets) // 6) == 0:
            parts.append(
                f"<text x={LEFT - 4} y={bottom - high * row:.1f} text-anchor=end>{escape(bound)}</text>"
            )
    return "".join([*parts, *_times(span, right, bottom), "</svg>"])


def _axes(span: Span, top: float, unit: str, right: int, bottom: int) -> Iterable[str]:
    for step in range(5):
        y = bottom * (1 - step / 4)
        yield f"<line x1={LEFT} x2={LEFT + right} y1={y:.1f} y2={y:.1f} stroke='#e5e5e5' />"
        words = escape(format_value(top * step / 4, unit))
        yield f"<text x={LEFT - 4} y={max(8.0, y + 3):.1f} text-anchor=end>{words}</text>"
    yield from _times(span, right, bottom)


def _times(span: Span, right: int, bottom: int) -> Iterable[str]:
    number = max(2, right // 150)
    for step in range(number):
        at = span[0] + (span[1] - span[0]) * (step + 0.5) / number
        words = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
        yield f"<text x={LEFT + _x(at, span, right):.1f} y={bottom + 12} text-anchor=middle>{words}</text>"


def _last(line: Line) -> float:
    value = line.values[-1][1] if line.values else 0.0
    return value if math.isfinite(value) else 0.0


def _stacked(lines: Sequence[Line]) -> list[Values]:
    below: dict[float, float] = {}
    found: list[Values] = []
    for line in lines:
        for at, value in line.values:
            below[at] = below.get(at, 0.0) + value
        found.append([(at, below[at]) for at, _ in line.values])
    return found


def _x(at: float, span: Span, width: float) -> float:
    return width * (at - span[0]) / (span[1] - span[0])


def _points(values: Values, span: Span, between: tuple[float, float], width: int, height: int) -> str:
    low, high = between
    return " ".join(
        f"{_x(at, span, width):.1f},{height * (1 - (value - low) / (high - low)):.1f}"
        for at, value in values
        if math.isfinite(value)
    )


def _moved(points: str) -> str:
    return " ".join(
        f"{float(x) + LEFT:.1f},{y}" for x, _, y in (point.partition(",") for point in points.split())
    )
