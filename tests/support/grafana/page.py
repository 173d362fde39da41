"""A dashboard with its data as a page of HTML: what Grafana would show, drawn with few means, for a person to look at.

It knows the kinds of panels that :mod:`tests.support.grafana.panels` makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple, Protocol

from tests.support.grafana import charts
from tests.support.grafana.charts import Line, format_value

# Pixels of a unit of Grafana's grid, between panels, and of the title of the page.
COLUMN, ROW, GAP, TITLE = 56, 34, 6, 44
COLOURS = {
    "green": "#56a64b", "orange": "#ff9830", "red": "#e02f44", "dark-red": "#8a1020", "blue": "#3274d9",
    "yellow": "#e0b400", "text": "#24292e",
}  # fmt: skip

Panel = Mapping[str, Any]


class Series(NamedTuple):
    """The labels of a series, and its values by time (seconds)."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]


class Data(Protocol):
    """Answers the expressions of a dashboard. The variables of Grafana have values already."""

    def now(self, expression: str) -> Sequence[Series]:
        """Each series with its newest value alone."""
        ...

    def over_time(self, expression: str) -> Sequence[Series]:
        """Each series over the time range."""
        ...


def page(board: Mapping[str, Any], data: Data, span: tuple[float, float]) -> str:
    """The page of a dashboard over a time range (seconds)."""
    marks = [mark for annotation in board["annotations"]["list"] for mark in _marks(annotation, data, span)]
    drawn = [_panel(panel, data, span, marks) for panel in board["panels"]]
    width, height = size(board)
    begin, end = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in span)
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(board['title'])}</title><style>{_STYLE}</style>"
        f"<body style='width:{width}px;height:{height}px'>"
        f"<h1>{escape(board['title'])}<small>{begin} to {end} UTC</small></h1>{''.join(drawn)}"
    )


def size(board: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of the page of a dashboard, in pixels."""
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    return 24 * COLUMN, TITLE + lines * ROW


def _panel(
    panel: Panel, data: Data, span: tuple[float, float], marks: Sequence[tuple[float, str, str]]
) -> str:
    place = panel["gridPos"]
    box = (
        f"left:{place['x'] * COLUMN + GAP // 2}px;top:{TITLE + place['y'] * ROW}px;"
        f"width:{place['w'] * COLUMN - GAP}px;height:{place['h'] * ROW - GAP}px"
    )
    title = escape(panel["title"])
    if panel["type"] == "row":
        return f"<h2 style='{box}'>{title}</h2>"
    width, height = place["w"] * COLUMN - GAP - 16, place["h"] * ROW - GAP - 34
    if panel["type"] == "stat":
        return _stat(panel, data, span, box, width)
    inside = {
        "timeseries": lambda: _course(panel, data, span, marks, width, height),
        "table": lambda: _table(panel, data),
        "heatmap": lambda: _heatmap(panel, data, span, width, height),
    }[panel["type"]]()
    return f"<section style='{box}'><h3>{title}</h3>{inside or '<p class=none>no data</p>'}</section>"


def _stat(panel: Panel, data: Data, span: tuple[float, float], box: str, width: int) -> str:
    found = [one for one in data.over_time(panel["targets"][0]["expr"]) if one.values]
    value = found[0].values[-1][1] if found else None
    defaults = panel["fieldConfig"]["defaults"]
    words = "no data" if value is None else format_value(value, defaults.get("unit", "short"))
    colour = "#8e8e8e" if value is None else COLOURS[_threshold(value, defaults["thresholds"]["steps"])]
    course = charts.sparkline(found[0].values, span, width, 34) if found else ""
    return (
        f"<section class=stat style='{box};background:{colour}'><h3>{escape(panel['title'])}</h3>"
        f"<b>{escape(words)}</b>{course}</section>"
    )


def _threshold(value: float, steps: Sequence[Mapping[str, Any]]) -> str:
    colour = steps[0]["color"]
    for step in steps[1:]:
        colour = step["color"] if value >= step["value"] else colour
    return colour


def _course(
    panel: Panel, data: Data, span: tuple[float, float], marks: Sequence[tuple[float, str, str]],
    width: int, height: int,
) -> str:  # fmt: skip
    fixed: dict[str, str] = {
        one["matcher"]["options"]: prop["value"]["fixedColor"]
        for one in panel["fieldConfig"].get("overrides", ())
        for prop in one["properties"]
        if prop["id"] == "color" and prop["value"].get("mode") == "fixed"
    }
    lines = []
    for target in panel["targets"]:
        for series in data.over_time(target["expr"]):
            name = _legend(target.get("legendFormat", "__auto"), series.labels)
            colour = fixed.get(name, charts.PALETTE[len(lines) % len(charts.PALETTE)])
            lines.append(Line(name, COLOURS.get(colour, colour), series.values))
    if not any(line.values for line in lines):
        return ""
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    steps = defaults.get("thresholds", {}).get("steps", [])
    critical = steps[-1]["value"] if len(steps) > 1 else None
    return charts.courses(
        lines,
        span,
        width,
        height,
        unit=defaults.get("unit", "short"),
        stacked=stacked,
        critical=critical,
        marks=marks,
    )


def _table(panel: Panel, data: Data) -> str:
    organized = panel["transformations"][0]["options"]
    columns = sorted(organized["indexByName"], key=organized["indexByName"].__getitem__)[:-1]
    value_title = organized["renameByName"]["Value"]
    properties = {
        prop["id"]: prop["value"]
        for one in panel["fieldConfig"]["overrides"]
        if one["matcher"]["options"] == value_title
        for prop in one["properties"]
    }
    words = properties["mappings"][0]["options"] if "mappings" in properties else {}
    found = sorted(
        data.now(panel["targets"][0]["expr"]), key=lambda one: -one.values[-1][1] if one.values else 0
    )
    if not found:
        return "<p class=none>none</p>"
    lines = []
    for series in found[:10]:
        value = series.values[-1][1]
        mapped = words.get(f"{value:g}")
        text = mapped["text"] if mapped else format_value(value, properties.get("unit", "short"))
        style = f" style='color:{COLOURS[mapped['color']]}'" if mapped else ""
        cells = "".join(f"<td>{escape(series.labels.get(name, ''))}" for name in columns)
        lines.append(f"<tr>{cells}<td class=number{style}>{escape(text)}")
    head = "".join(f"<th>{escape(name)}" for name in columns)
    return f"<table><tr>{head}<th class=number>{escape(value_title)}{''.join(lines)}</table>"


def _heatmap(panel: Panel, data: Data, span: tuple[float, float], width: int, height: int) -> str:
    found = sorted(data.over_time(panel["targets"][0]["expr"]), key=lambda one: float(one.labels["le"]))
    buckets = [(series.labels["le"], dict(series.values)) for series in found]
    return charts.heatmap(buckets, span, width, height)


def _legend(form: str, labels: Mapping[str, str]) -> str:
    if form == "__auto":
        return ", ".join(value for name, value in labels.items() if name != "__name__") or "value"
    for name, value in labels.items():
        form = form.replace("{{" + name + "}}", value)
    return form


def _marks(
    annotation: Mapping[str, Any], data: Data, span: tuple[float, float]
) -> list[tuple[float, str, str]]:
    """The times of an annotation, each with its colour and its text."""
    colour, found = COLOURS[annotation["iconColor"]], dict[float, str]()
    for series in data.over_time(annotation["expr"]):
        text = series.labels.get("alertname") or series.labels.get("function", "")
        if annotation.get("useValueForTime"):
            found |= {value / 1000: text for _, value in series.values}
        elif series.values:
            found[series.values[0][0]] = text
    return [(at, colour, text) for at, text in found.items() if span[0] <= at <= span[1]]


_STYLE = """
body { position: relative; margin: 0; background: #f4f5f5; color: #24292e; font: 12px/1.3 "DejaVu Sans", sans-serif }
h1 { font-size: 20px; margin: 0; padding: 8px 6px } h1 small { font-size: 12px; color: #666; margin-left: 16px }
h2 { position: absolute; margin: 0; font-size: 14px; line-height: 28px; border-bottom: 1px solid #ccc }
section { position: absolute; background: #fff; border: 1px solid #ddd; border-radius: 2px; box-sizing: border-box;
  padding: 4px 8px; overflow: hidden }
h3 { font-size: 12px; margin: 0 0 4px; font-weight: 600; white-space: nowrap; overflow: hidden }
.stat { color: #fff; text-align: center } .stat h3 { text-align: left } .stat b { font-size: 26px; display: block }
.stat svg { position: absolute; left: 8px; bottom: 4px }
.none { color: #888; text-align: center; margin-top: 40px }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600; color: #3274d9 }
td, th { padding: 2px 6px; border-bottom: 1px solid #eee; white-space: nowrap } .number { text-align: right }
svg text { font-size: 10px; fill: #555 }
"""
