"""What a check finds: a problem, certain or only likely, and the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """``certain``: the trigger, or a part of it, can never work as it is. ``pointer``: the place in the definition (RFC
    6901).
    """

    what: str
    why: str
    try_: str = ""
    certain: bool = False
    pointer: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The problem in one line."""
        return ": ".join(part for part in (self.what, self.why) if part)


def nearest(name: object, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the known name that ``name`` is probably a misspelling of."""
    return next(iter(difflib.get_close_matches(str(name), sorted(known), 1, cutoff)), None)


def listed(names: Iterable[str], most: int = 15) -> str:
    """Return names as a text for people."""
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (", …" if len(ordered) > most else "")


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer of a place."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def pointer_of_place(place: str) -> str:
    """Return the pointer of a place by its name in messages (:mod:`functory.triggers.save_checks.references`)."""
    if place.endswith("cancel_on"):
        return pointer("flow", "cancel_on")
    if " part " in place:
        return pointer("composite")
    fields = {"the pattern": "on", "the input template": "input", "the condition": "when"}
    return pointer(fields.get(place, "flow"))
