"""The definition of an agent, checked. Pure.

{"function": "solve", "description": "Solves tickets", "model": "small", "memo": {}, "tools": ["search"],
 "agents": [], "checks": ["is_answered"], "limits": {"usd": 0.5, "steps": 20}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functory.engine.agents.directives import MAX_MEMO_BYTES
from functory.engine.agents.money import nano_dollars
from functory.engine.agents.tools import EFFECTS
from functory.engine.errors import Invalid
from functory.engine.names import check_name
from functory.engine.serialization import json_codec

if TYPE_CHECKING:
    from functory.engine.settings import Settings

FIELDS = ("function", "description", "model", "memo", "tools", "agents", "checks", "ask_before", "limits")
MAX_NAMES = 200
MAX_DESCRIPTION = 4_000
# Steps of a run, and errors in a row that end it.
USUAL_STEPS, MAX_STEPS = 50, 10_000
USUAL_ERRORS, MAX_ERRORS = 3, 100
# Limits of the run's tree; those that are not named are the settings' (tree_usd and so on).
TREE = ("usd", "tokens", "calls", "tool_calls", "children", "proposals", "seconds")
LIMITS = (*TREE, "steps", "errors")


@dataclass(frozen=True)
class Limits:
    """What bounds a run besides its tree: steps, and errors in a row."""

    steps: int = USUAL_STEPS
    errors: int = USUAL_ERRORS

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Limits:
        given = definition.get("limits") or {}
        return cls(given.get("steps", USUAL_STEPS), given.get("errors", USUAL_ERRORS))


def check(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole definition. Raises :class:`Invalid` that names the wrong field."""
    if unknown := next((name for name in given if name not in FIELDS), None):
        raise Invalid(f"an agent has no field {str(unknown)[:80]!r}", f"its fields are {', '.join(FIELDS)}")
    if given.get("function") is None:
        raise Invalid("an agent needs a function", "each of its steps is an execution of it", "function=NAME")
    description = given.get("description") or ""
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise Invalid("wrong description", f"it is a text of at most {MAX_DESCRIPTION:,} characters")
    model = given.get("model")
    if model is not None and not isinstance(model, str):
        raise Invalid("wrong model", "it is the name of a model", "functory model list")
    memo = given.get("memo") or {}
    if not isinstance(memo, Mapping):
        raise Invalid("wrong memo", "it is an object; a run adds its goal to it")
    if (size := len(json_codec.encode(memo))) > MAX_MEMO_BYTES:
        raise Invalid(f"the memo has {size:,} bytes", f"a memo has at most {MAX_MEMO_BYTES:,}")
    tools, asked = _names(given.get("tools"), "tools"), _names(given.get("ask_before"), "ask_before")
    if unknown := next((name for name in asked if name not in (*EFFECTS, *tools)), None):
        raise Invalid(
            f"ask_before names {unknown[:80]!r}, which is no tool of the agent",
            f"it takes names of its tools, and the effects {', '.join(EFFECTS)}",
        )
    return {
        "function": _name(given["function"]),
        "description": description,
        "model": model,
        "memo": dict(memo),
        "tools": tools,
        "agents": _names(given.get("agents"), "agents"),
        "checks": _names(given.get("checks"), "checks"),
        # Tools, or effects of tools (functory.engine.agents.tools), that need a person's consent.
        "ask_before": asked,
        "limits": check_limits(given.get("limits") or {}),
    }


def _names(given: Any, field: str) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list | tuple) or len(given) > MAX_NAMES:
        raise Invalid(f"wrong {field}", f"they are a list of at most {MAX_NAMES} names")
    return sorted({_name(one) for one in given})


def _name(given: Any) -> str:
    check_name(given)
    return given


def check_limits(given: Any) -> dict[str, Any]:
    """Return checked limits. Raises :class:`Invalid`."""
    if not isinstance(given, Mapping):
        raise Invalid("wrong limits", f"they are an object with {', '.join(LIMITS)}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in LIMITS:
            raise Invalid(f"an agent has no limit {str(name)[:80]!r}", f"they are {', '.join(LIMITS)}")
        found[name] = _limit(name, value)
    return found


def usual_limits(settings: Settings) -> dict[str, Any]:
    """Return the limits of a run whose agent names none."""
    return {
        **{name: getattr(settings, f"tree_{name}") for name in TREE},
        "steps": USUAL_STEPS,
        "errors": USUAL_ERRORS,
    }


def above(given: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """Return the name of the first of the checked limits that is above the ``known`` one; None when none is."""

    def amount(name: str, value: Any) -> float:
        return nano_dollars(value, name) if name == "usd" else value

    return next((name for name in given if amount(name, given[name]) > amount(name, known[name])), None)


def _limit(name: str, value: Any) -> Any:
    if name == "usd":
        nano_dollars(value, "usd")
        return value
    low, high = {"steps": (1, MAX_STEPS), "errors": (1, MAX_ERRORS)}.get(name, (0, 10**12))
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Invalid(
            f"wrong limit {name}={str(value)[:40]}", f"a whole number from {low:,} to {high:,} is needed"
        )
    return value
