"""The report of an import: for each file of the pack, what it becomes, or why it is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from functory.engine.errors import Invalid

Outcome = Literal["runs", "needs", "cannot", "imported", "paused", "left out"]
ACTION_OUTCOMES: tuple[Outcome, ...] = ("runs", "needs", "cannot")
OTHER_OUTCOMES: tuple[Outcome, ...] = ("imported", "paused", "left out")


class LeftOut(Exception):
    """This part of the pack cannot be imported: ``why``, and what to do (``try_``)."""

    def __init__(self, why: str, try_: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.try_ = try_


@dataclass(frozen=True)
class Need:
    """What a function lacks before it can do its work, and the command that gives it.

    ``kind`` is a word for programs (package, packages, secret, config, host, subprocess, state, enabled), ``value`` the
    name in question; ``what`` says both.
    """

    kind: str
    value: str
    what: str
    try_: str


@dataclass
class Entry:
    """One file of the pack.

    ``function``, ``trigger`` or ``schedule`` is what it becomes: the arguments of the call that saves it, under the
    name ``became``; ``webhook`` is the source that its trigger needs. An action runs, needs something (``needs``), or
    cannot run. ``why`` and ``try_`` belong to the outcomes "cannot", "paused" and "left out", ``notes`` to any. A
    ``disabled`` action is saved and not active. ``requirement_sets`` are the requirements to try, best first.
    """

    file: str
    kind: str
    name: str
    outcome: Outcome = "imported"
    became: str = ""
    why: str = ""
    try_: str = ""
    notes: list[str] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    function: dict[str, Any] | None = None
    disabled: bool = False
    requirement_sets: list[tuple[str, ...]] = field(default_factory=list)
    trigger: Mapping[str, Any] | None = None
    schedule: Mapping[str, Any] | None = None
    webhook: Mapping[str, Any] | None = None

    def leave_out(self, why: str, try_: str = "") -> Entry:
        """Mark it as left out; an action cannot run then."""
        self.outcome = "cannot" if self.kind == "action" else "left out"
        self.why, self.try_, self.notes, self.needs = why, try_, [], []
        self.function = self.trigger = self.schedule = self.webhook = None
        return self

    def need(self, kind: str, value: str, what: str, try_: str) -> None:
        """Record something that the action lacks, once."""
        if not any((need.kind, need.value) == (kind, value) for need in self.needs):
            self.needs.append(Need(kind, value, what, try_))
        self.settle()

    def settle(self) -> None:
        """Set the outcome of an action by what it needs."""
        self.outcome = "needs" if self.needs else "runs"

    def pause(self, why: str, try_: str = "") -> None:
        """Mark a rule as imported and not active, for this reason too."""
        self.outcome = "paused"
        self.why = "; ".join(part for part in (self.why, why) if part)
        self.try_ = try_ or self.try_

    @property
    def is_left_out(self) -> bool:
        """True for what becomes nothing here."""
        return self.outcome in ("cannot", "left out")

    def as_json(self) -> dict[str, Any]:
        """The entry as the report shows it."""
        return {
            "file": self.file,
            "kind": self.kind,
            "name": self.name,
            "outcome": self.outcome,
            "became": "" if self.is_left_out else self.became,
            "why": self.why,
            "try": self.try_,
            "needs": [
                {"kind": need.kind, "value": need.value, "what": need.what, "try": need.try_}
                for need in self.needs
            ],
            "notes": self.notes,
        }


def reason(error: Invalid | LeftOut) -> tuple[str, str]:
    """The reason and the advice of either exception."""
    if isinstance(error, LeftOut):
        return error.why, error.try_
    return error.reason, error.try_
