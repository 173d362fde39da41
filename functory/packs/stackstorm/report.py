"""The report of an import: for each file of the pack, what it becomes, or why it is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from functory.engine.errors import Invalid

Outcome = Literal["imported", "paused", "left out"]


class LeftOut(Exception):
    """This part of the pack cannot be imported: ``why``, and what to do (``try_``)."""

    def __init__(self, why: str, try_: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.try_ = try_


@dataclass
class Entry:
    """One file of the pack.

    ``function`` or ``trigger`` is what it becomes: the arguments of the call that saves it, under the name
    ``became``. ``why`` and ``try_`` belong to an outcome other than "imported", ``notes`` to any.
    """

    file: str
    kind: str
    name: str
    outcome: Outcome = "imported"
    became: str = ""
    why: str = ""
    try_: str = ""
    notes: list[str] = field(default_factory=list)
    function: Mapping[str, Any] | None = None
    trigger: Mapping[str, Any] | None = None

    def leave_out(self, why: str, try_: str = "") -> Entry:
        """Mark it as left out."""
        self.outcome, self.why, self.try_, self.notes = "left out", why, try_, []
        self.function = self.trigger = None
        return self

    def as_json(self) -> dict[str, Any]:
        """The entry as the report shows it."""
        became = self.became if self.outcome != "left out" else ""
        said = {
            "file": self.file,
            "kind": self.kind,
            "name": self.name,
            "outcome": self.outcome,
            "became": became,
        }
        return said | {"why": self.why, "try": self.try_, "notes": self.notes}


def reason(error: Invalid | LeftOut) -> tuple[str, str]:
    """The reason and the advice of either exception."""
    if isinstance(error, LeftOut):
        return error.why, error.try_
    return error.reason, error.try_
