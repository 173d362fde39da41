"""Tables of docs/reference that people write name what the code has: no more, no less, and with the same numbers."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import asdict
from pathlib import Path
from typing import get_type_hints

import pytest

import functory
from functory.cli.commands.doctor import CHECKS
from functory.cli.input import limit_options
from functory.engine.access import roles
from functory.engine.database.schema.executions import STATES
from functory.engine.errors import FunctoryError, Invalid
from functory.engine.events.event_types import DATA_FIELDS
from functory.engine.functions import declaration, limits
from functory.engine.functions.analysis.rules import RULES
from functory.engine.maintenance.invariants import INVARIANTS
from functory.engine.names import RESERVED
from functory.remote.client import RemoteFunctory
from functory.sources import SourceContext
from functory.triggers import definition

DOCS = Path(__file__).parents[3] / "docs"


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    _, found, after = (DOCS / page).read_text().partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading}"
    return after.partition(f"\n{heading.split()[0]} ")[0]


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head."""
    table = re.search(r"(?:^\|.*\n?)+", section(page, heading), re.MULTILINE)
    assert table, f"{page}: no table below {heading}"
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table[0].splitlines()[2:]
    ]


def named(cell: str) -> set[str]:
    """The names in code font of a cell."""
    return set(re.findall(r"`([^`]+)`", cell))


def first_names(page: str, heading: str) -> set[str]:
    """The names in the first column of a section's first table."""
    return {name for row in rows(page, heading) for name in named(row[0])}


def test_the_fields_of_a_function_are_those_of_a_declaration() -> None:
    listed = first_names("reference/functions.md", "## What can be declared")
    assert listed == set(declaration.FIELDS) - {"source", "limits"}


def amount(name: str, text: str) -> int | float:
    """The limit that a cell shows, as in `512 MiB`, `86,400 s` or `4,096`."""
    plain = re.sub(r"[, ]", "", text.removesuffix(" s"))
    return limit_options.parse([f"{name}={plain}"])[name]


def test_the_limits_have_their_defaults_and_bounds() -> None:
    shown = {row[0].strip("`"): row[1:3] for row in rows("reference/functions.md", "## Limits")}
    defaults = asdict(limits.Limits())
    assert set(shown) == set(defaults)
    for name, (default, bounds) in shown.items():
        if name in limits.ERROR_NAMES:
            # Their bounds are a count and a form, and have tests of their own.
            assert (default, defaults[name]) == ("none", ())
            continue
        if defaults[name] is not None:
            assert amount(name, default) == defaults[name], name
        least, _, most = bounds.rpartition("to ")
        low = amount(name, least) if least else 1
        high = amount(name, most)
        limits.parse({name: low})
        limits.parse({name: high})
        for beyond in (low - (low / 2 if 0 < low < 1 else 1), high + 1):
            with pytest.raises(Invalid):
                limits.parse({name: beyond})


def test_the_reserved_names_are_listed() -> None:
    listed = section("reference/functions.md", "## Source").partition("These names are reserved")[2]
    assert named(listed) == RESERVED


def test_the_kinds_of_findings_have_their_severity() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows("how-to/check-functions.md", "## Kinds")}
    assert listed == {kind: rule.severity for kind, rule in RULES.items()}


def test_the_fields_of_a_trigger_are_those_of_a_definition() -> None:
    listed = first_names("reference/triggers.md", "## The first spelling")
    # `pass` comes from the second spelling only; `shadow` is a state of a new trigger and no part of the definition.
    assert listed == definition.FIELDS - {"pass"} | {"shadow"}


def test_the_guards_of_a_trigger_are_listed() -> None:
    (cell,) = [
        row[1] for row in rows("reference/triggers.md", "## The first spelling") if row[0] == "`guards`"
    ]
    assert named(cell) == {field.name for field in dataclasses.fields(definition.Guards)}


def test_the_event_types_of_the_second_spelling_are_listed() -> None:
    listed = {
        name: tuple(re.findall(r"`([^`]+)`", row[1]))
        for row in rows("reference/triggers.md", "## The second spelling")
        for name in named(row[0])
    }
    assert listed == definition.EVENT_TYPES


def test_the_data_of_each_event_type_is_described() -> None:
    described = [(named(types), named(text)) for types, text in rows("reference/events.md", "## Data")]
    for event_type, fields in DATA_FIELDS.items():
        family = event_type.partition(".")[0] + ".*"
        known = set().union(*(names for types, names in described if {event_type, family} & types))
        assert (fields or set()) <= known, (
            f"{event_type}: {sorted((fields or set()) - known)} is not described"
        )


def test_the_states_of_an_execution_are_listed() -> None:
    listed = {
        name
        for row in rows("reference/states.md", "## Executions")
        for cell in row[:2]
        for name in named(cell)
    }
    assert listed == set(STATES)


def test_the_invariants_are_listed_with_what_verify_prints() -> None:
    listed = {row[0] for row in rows("reference/invariants.md", "## The invariants")}
    assert listed == {one.code for one in INVARIANTS}


def test_the_roles_have_their_rights() -> None:
    for row in rows("reference/access.md", "## Roles and rights"):
        (right,) = re.findall(r"^`([a-z:]+)`", row[0])
        for role, cell in zip(roles.ROLES, row[1:], strict=True):
            if right in roles.OF_ROLE[role]:
                expected = "yes"
            else:
                expected = "can be added" if right in roles.EXTRA else ""
            assert cell == expected, (role, right)


def test_the_errors_that_a_program_can_import_are_listed() -> None:
    listed = named(section("reference/functions.md", "## Errors"))
    public = {
        name
        for name in functory.__all__
        if isinstance(getattr(functory, name), type) and issubclass(getattr(functory, name), FunctoryError)
    }
    assert public <= listed


def test_the_names_of_the_module_are_listed() -> None:
    listed = {name.partition("(")[0] for name in first_names("reference/functions.md", "## Python API")}
    verbs = {
        "register_function",
        "register_trigger",
        "call",
        "submit",
        "submit_many",
        "gather",
        "emit",
        "emit_many",
    }
    assert verbs <= set(functory.__all__)
    assert verbs <= listed


def test_the_verbs_of_the_remote_client_exist() -> None:
    cells = [row[0] for row in rows("reference/python-client.md", "## Verbs")]
    listed = {name.partition("(")[0] for cell in cells for name in named(cell)}
    missing = [name for name in listed if not callable(getattr(RemoteFunctory, name, None))]
    assert missing == []


def test_what_a_function_has_inside_is_listed() -> None:
    page = (DOCS / "reference/inside-a-function.md").read_text()
    listed = {
        name for row in re.findall(r"^\|([^|]+)\|", page, re.MULTILINE) for name in re.findall(r"`(\w+)", row)
    }
    outside = {"functory", "main", "self", "cls", "register_function", "register_trigger", "submit_many"}
    assert RESERVED - outside <= listed


def test_what_a_source_plugin_gets_is_listed() -> None:
    page = section("reference/sources.md", "## Source plug-ins")
    listed = {name.partition("(")[0] for name in named(page)}
    context = {*get_type_hints(SourceContext), *vars(SourceContext)}
    assert {name for name in context if not name.startswith("_")} <= listed


def test_the_checks_of_doctor_are_listed() -> None:
    assert first_names("reference/cli.md", "### doctor") == set(CHECKS)
