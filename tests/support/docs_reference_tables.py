"""Writes the tables of docs/reference that come from the code.

``python -m tests.support.docs_reference_tables`` rewrites them.

A table lies between two comments, ``<!-- table: name -->`` and ``<!-- end -->``. People write the text around it. A
test compares the stored table with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.metrics import MetricWrapperBase

from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.maintenance import state_metrics
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.triggers.flow_control.definition import CONTROLS, INCOMPATIBLE

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def settings_table() -> str:
    """Every setting: variable, default, range, meaning."""
    rows = []
    for name, field in Settings.model_fields.items():
        bounds = {
            kind: getattr(rule, kind)
            for rule in field.metadata
            for kind in ("gt", "ge", "le")
            if hasattr(rule, kind)
        }
        allowed = _range(bounds)
        choices = getattr(field.annotation, "__args__", ())
        if choices and all(isinstance(choice, str) for choice in choices):
            allowed = ", ".join(choice or "(empty)" for choice in choices)
        rows.append([f"`FUNCTORY_{name.upper()}`", _default(field.default), allowed, field.description or ""])
    return _table(["variable", "default", "allowed", "meaning"], rows)


def _range(bounds: dict[str, Any]) -> str:
    """``1 to 512``, ``over 0 to 60``, ``at least 1,048,576``, or nothing."""
    least, most = bounds.get("gt", bounds.get("ge")), bounds.get("le")
    if least is None:
        return ""
    over = "over " if "gt" in bounds else ""
    low = f"{least:g}" if over else f"{least:,}"
    if most is None:
        return f"{over or 'at least '}{low}"
    return f"{over}{low} to " + (f"{most:,g}" if isinstance(most, float) else f"{most:,}")


def metrics_table() -> str:
    """Every metric family: type, labels, meaning."""
    rows = []
    for name, kind, labels, text in sorted(families()):
        rows.append([f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), text])
    return _table(["metric", "type", "labels", "meaning"], rows)


def families() -> list[tuple[str, str, tuple[str, ...], str]]:
    """(name, type, labels, help) of every family: those of each process, and those read from the database."""
    found = []
    for value in vars(metrics).values():
        if isinstance(value, MetricWrapperBase):
            (family,) = value.describe()
            # The library has no public access to the labels of a metric without samples.
            found.append((_exposed(family), family.type, tuple(value._labelnames), family.documentation))
    database = Database("sqlite://")
    try:
        migrations.upgrade(database)
        for family in state_metrics.StateCollector(database).collect():
            found.append((_exposed(family), family.type, tuple(family._labelnames), family.documentation))
    finally:
        database.close()
    return found


def combinations_table() -> str:
    """The combinations of a trigger's controls; the code that refuses combinations decides."""
    names = [*CONTROLS, "composite"]
    numbers: dict[str, int] = {}
    rows = []
    for name in names[1:]:
        cells = [f"`{name}`"]
        for other in names[: names.index(name)]:
            why = INCOMPATIBLE.get(frozenset({name, other}))
            cells.append("✓" if why is None else f"[{numbers.setdefault(why, len(numbers) + 1)}]")
        rows.append([*cells, *[""] * (len(names) - len(cells))])
    notes = [f"- [{number}] {why}" for why, number in numbers.items()]
    heads = ["", *(f"`{name}`" for name in names[:-1])]
    return "\n".join([_table(heads, rows), "", *notes])


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("settings.md", settings_table),
    "metrics": ("metrics.md", metrics_table),
    "combinations": ("flow-control.md", combinations_table),
}


def written(name: str) -> str:
    """The table as the page has it."""
    file, _ = TABLES[name]
    found = _place(name).search((FOLDER / file).read_text())
    return found["table"].strip() if found else ""


def rewrite(name: str) -> None:
    """Write the table into its page."""
    file, make = TABLES[name]
    text = (FOLDER / file).read_text()
    table = make()
    (FOLDER / file).write_text(
        _place(name).sub(lambda found: f"{found['begin']}\n{table}\n{found['end']}", text)
    )


def _place(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<begin><!-- table: {name} -->)\n(?P<table>.*?)\n?(?P<end><!-- end -->)", re.DOTALL
    )


def _exposed(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _default(value: Any) -> str:
    if value is None or value == "":
        return "—"
    if hasattr(value, "get_secret_value"):
        value = value.get_secret_value()
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    for table in TABLES:
        rewrite(table)
