"""What a function that undoes a step is given, and whether it can be: pure, asked at the save and at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# By the names of its parameters: what the step was called with and returned, its execution, why it is undone.
COMPENSATION_ARGUMENTS = ("input", "result", "execution_id", "error")

# What a worker puts into the place of a secret's value (functory.workers.execution.redaction).
_REDACTED = "***"


def accepted_compensation_arguments(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of ``GIVEN`` that a function declares as parameters; all of them for ``**named``."""
    if any(p["kind"] == "var_keyword" for p in parameters):
        return list(COMPENSATION_ARGUMENTS)
    return [name for name in COMPENSATION_ARGUMENTS if any(p["name"] == name for p in parameters)]


def missing_compensation_arguments(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """The required parameters that nobody fills."""
    return [p["name"] for p in parameters if p["required"] and p["name"] not in COMPENSATION_ARGUMENTS]


def compensation_warnings(version: Mapping[str, Any] | None, reference: str) -> list[str]:
    """What is wrong with a function as the one that undoes another; ``version`` is None when there is none."""
    if version is None:
        return [f"the compensation {reference} does not exist yet"]
    missing = missing_compensation_arguments(version["parameters"])
    if not missing:
        return []
    return [
        f"the compensation {reference} needs {', '.join(missing)}: "
        f"it is given {', '.join(COMPENSATION_ARGUMENTS)} and nothing else"
    ]


def is_complete(value: Any) -> bool:
    """Whether a recorded value is the one that there was: no repr in the place of a part, no secret taken out."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if _REDACTED in one:
                return False
        elif isinstance(one, Mapping):
            if set(one) == {"$type", "$repr"}:
                return False
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return True
