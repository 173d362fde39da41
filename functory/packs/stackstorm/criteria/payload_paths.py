"""Keys of criteria: the part of JSONPath that StackStorm's rules use.

``trigger.body.name``, ``trigger.headers['X-Y']``, ``trigger.alerts[0].labels.x`` and ``trigger.items[*].id``,
where the first match counts. The text after ``#`` is a tag that keeps two keys apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.packs.stackstorm.criteria.evaluation_budget import STEP_COST, EvaluationBudget
from functory.triggers.patterns.formatting import format_value

MAX_KEY = 1000

_NAME = re.compile(r"[^\s.\[\]#'\"*$]+")
_STEP = re.compile(
    r"""\.(?P<name>[^\s.\[\]#'"*$]+) | \[(?P<index>[0-9]{1,9})\]
      | \[(?P<quoted>'[^']*'|"[^"]*")\] | \.(?P<inner>'[^']*'|"[^"]*")
      | (?P<any>\[\*\]|\.\*)""",
    re.VERBOSE,
)


# A member's name, an element's place, or None for ``[*]``: every element or member, in order.
Step = str | int | None

MISSING = object()


@dataclass(frozen=True)
class PayloadPath:
    """A parsed key: its text as ``written``, the name of the context at its start, and the steps after it."""

    written: str
    root: str
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The steps, when all are member names."""
        found = tuple(step for step in self.steps if isinstance(step, str))
        return found if len(found) == len(self.steps) else None

    def value(self, context: Mapping[str, Any], budget: EvaluationBudget) -> Any:
        """The first value there; None when there is none, as for a null. Raises :class:`Spent`."""
        return next(_follow(context.get(self.root, MISSING), self.steps, budget), None)


def parse_payload_path(text: str) -> PayloadPath:
    """Parse a key. Raises :class:`Invalid` that shows the place of the fault."""
    if not isinstance(text, str) or len(text) > MAX_KEY:
        raise Invalid(
            f"wrong key of criteria: {format_value(text)}",
            f"it must be a text of at most {MAX_KEY} characters",
        )
    begin = _NAME.match(text)
    at = begin.end() if begin else 0
    steps: list[Step] = []
    while begin and at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            break
        at = step.end()
        if step["name"] is not None:
            steps.append(step["name"])
        elif step["index"] is not None:
            steps.append(int(step["index"]))
        elif step["any"] is not None:
            steps.append(None)
        else:
            steps.append((step["quoted"] or step["inner"])[1:-1])
    rest = text[at:].strip()
    if begin is None or (rest and not rest.startswith("#")):
        raise Invalid(
            f"wrong key of criteria: {format_value(text)}",
            f"it cannot be read from {format_value(rest)} on",
            "write trigger.body.name, trigger.headers['X-Y'], trigger.items[0].id or trigger.items[*].id",
        )
    return PayloadPath(text, begin[0], tuple(steps))


def _follow(value: Any, steps: Sequence[Step], budget: EvaluationBudget) -> Iterator[Any]:
    if value is MISSING:
        return
    if not steps:
        yield value
        return
    for inner in _below(value, steps[0]):
        budget.spend(STEP_COST)
        yield from _follow(inner, steps[1:], budget)


def _below(value: Any, step: Step) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values() if step is None else (value.get(step, MISSING),)
    if isinstance(value, list | tuple) and not isinstance(step, str):
        return value if step is None else value[step : step + 1]
    return ()
