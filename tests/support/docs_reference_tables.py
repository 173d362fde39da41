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

from functory.cli import application, command_index
from functory.engine.maintenance import state_gauges
from functory.engine.maintenance.pool_gauges import PoolGauges
from functory.engine.settings import Settings
from functory.engine.sources import refusals
from functory.engine.telemetry.metrics import registry
from functory.engine.telemetry.registry import ROLES
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
    for name, kind, labels, text, roles in sorted(families()):
        shown = "all" if len(roles) == len(ROLES) else ", ".join(role for role in ROLES if role in roles)
        rows.append([f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), shown, text])
    return _table(["metric", "type", "labels", "role", "meaning"], rows)


def families() -> list[tuple[str, str, tuple[str, ...], str, frozenset[str]]]:
    """(name, type, labels, help, roles) of every family: those of each process, and those of stored rows."""
    found = []
    for value, roles in registry.roles_of.items():
        (family,) = value.describe()
        # The library has no public access to the labels of a metric without samples.
        found.append((_exposed(family), family.type, tuple(value._labelnames), family.documentation, roles))
    for family in PoolGauges().describe():
        found.append(
            (family.name, family.type, tuple(family._labelnames), family.documentation, frozenset(ROLES))
        )
    for family in [state_gauges.leader("scheduler", False), *state_gauges.describe()]:
        labels = tuple(family._labelnames)
        found.append((_exposed(family), family.type, labels, family.documentation, frozenset({"scheduler"})))
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


def refusals_table() -> str:
    """Every reason why a source makes no event of what came."""
    return _table(["reason", "meaning"], [[f"`{reason}`", what] for reason, what in refusals.REASONS.items()])


def commands_table() -> str:
    """Every command of the command line, and the first sentence of its help."""
    rows = []
    for entry in command_index.entries():
        if entry.verb is not None:
            rows.append([f"`functory {entry.name}`", entry.help])
            continue
        command: Any = application.load_command(entry)
        if not hasattr(command, "commands"):
            rows.append([f"`functory {entry.name}`", entry.help])
        rows += [
            [f"`{words}`", _first_sentence(verb.help)]
            for words, verb in _verbs(f"functory {entry.name}", command)
        ]
    return _table(["command", "what it does"], rows)


def _verbs(words: str, command: Any) -> list[tuple[str, Any]]:
    """The commands below a group, also those of groups inside of it."""
    found: list[tuple[str, Any]] = []
    for name, verb in getattr(command, "commands", {}).items():
        below = _verbs(f"{words} {name}", verb)
        found += below or [(f"{words} {name}", verb)]
    return found


def _first_sentence(text: str) -> str:
    """The first sentence of a help text as cell of a table: it begins with a small character, and has no full stop."""
    sentence = re.split(r"\.(?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return sentence[0].lower() + sentence[1:]


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("cli.md", commands_table),
    "settings": ("settings.md", settings_table),
    "metrics": ("metrics.md", metrics_table),
    "combinations": ("flow-control.md", combinations_table),
    "refusals": ("sources.md", refusals_table),
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
