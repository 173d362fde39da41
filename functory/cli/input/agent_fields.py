"""The fields of an agent as options of the command line."""

from __future__ import annotations

from typing import Annotated, Any

from functory.cli.command_group import option
from functory.cli.input import values

Function = Annotated[str | None, option("Function of its steps; it takes memo and given.")]
Description = Annotated[str | None, option("What the agent is for.")]
Model = Annotated[str | None, option("Model that step.model() asks when it names none.")]
Memo = Annotated[str | None, option("JSON object, or @FILE: what each run knows at its begin.")]
Tool = Annotated[list[str] | None, option("Function that a run may use as a tool. Repeatable.", "--tool")]
Child = Annotated[list[str] | None, option("Agent that a run may start. Repeatable.", "--agent")]
Check = Annotated[
    list[str] | None,
    option(
        "Function that decides whether a result is right; it takes result and memo. Repeatable.", "--check"
    ),
]
AskBefore = Annotated[
    list[str] | None,
    option(
        "Tool that needs a person's consent; or all whose effect is this: acts, reads, none. Repeatable.",
        "--ask-before",
    ),
]
Limit = Annotated[
    list[str] | None,
    option(
        "Limit of a run: usd=0.5, tokens=, calls=, tool_calls=, children=, seconds=, steps=20, errors=3. Repeatable.",
        "--limit",
    ),
]


def fields(
    *,
    tool: list[str] | None,
    child: list[str] | None,
    check: list[str] | None,
    ask_before: list[str] | None,
    limit: list[str] | None,
    memo: str | None,
    **given: Any,
) -> dict[str, Any]:
    """Return the fields that were given."""
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in (("tools", tool), ("agents", child), ("checks", check)):
        if value:
            found[name] = [] if value == ["none"] else value
    if ask_before:
        found["ask_before"] = ask_before
    if limit:
        found["limits"] = limits(limit)
    if memo is not None:
        found["memo"] = values.read_json_object(memo, "memo")
    return found


def limits(given: list[str]) -> dict[str, Any]:
    """Return limits given as ``name=value``."""
    return values.parse_pairs(given, "--limit", "--limit usd=0.5")
