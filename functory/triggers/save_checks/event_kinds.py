"""Which events a pattern can match, and which paths such events surely do not have.

A branch of a pattern that lists types and subjects says much about its events: those of the engine's own types have
known fields, and the output in them has the schema that its function declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.events.event_types import DATA_FIELDS
from functory.triggers.patterns import Pattern
from functory.triggers.patterns.pattern import Branch
from functory.triggers.save_checks.problems import nearest
from functory.triggers.save_checks.schema_paths import Gap, find_gap

# The attributes of an envelope (functory.engine.events.store.envelope).
ENVELOPE = (
    "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data", "functoryroot",
    "functorydepth", "functorycause",
)  # fmt: skip
# Extension attributes that senders of CloudEvents use: those that the engine adds, and those that the specification
# documents (https://github.com/cloudevents/spec/tree/main/cloudevents/extensions).
KNOWN_EXTENSIONS = frozenset({
    "dataschema", "datacontentencoding", "functorysenderid", "traceparent", "tracestate", "partitionkey", "sequence",
    "sequencetype", "sampledrate", "dataref", "expirytime", "authtype", "authid", "authclaims", "deprecated",
    "deprecationfrom", "deprecationsunset", "deprecationmigration", "recordedtime", "correlationid", "causationid",
    "severitytext", "severitynumber", "opcuametadatamajorversion", "opcuametadataminorversion",
})  # fmt: skip
_EXTENSION = re.compile(r"[a-z0-9]{1,100}")

Steps = Sequence[str | int]
Functions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class EventKind:
    """The events of one branch: their type and subject, and the output pattern in their data; None: any."""

    type: str | None = None
    subjects: frozenset[str] | None = None
    output_patterns: frozenset[str] | None = None

    @property
    def is_ours(self) -> bool:
        """True when only the engine writes such events."""
        return self.type in DATA_FIELDS

    def gap(self, steps: Steps, functions: Functions, *, through_lists: bool = False) -> Gap | None:
        """Return where a path into the envelope ends; None when it may have a value.

        ``through_lists``: the path is that of a pattern, which has no positions of lists.
        """
        if not steps:
            return None
        name, below = steps[0], steps[1:]
        if isinstance(name, int):
            return Gap(0, "an event is not a list", certain=True)
        if name == "data":
            return self._gap_in_data(below, functions, through_lists)
        if name in ENVELOPE:
            return Gap(1, f"{name} has no members", certain=True) if below else None
        return self._extension_gap(name, below)

    def _extension_gap(self, name: str, below: Steps) -> Gap | None:
        known = (*ENVELOPE, *KNOWN_EXTENSIONS) if not self.is_ours else ENVELOPE
        why = f"an event has {', '.join(ENVELOPE)}"
        near = nearest(name, ENVELOPE, 0.75)
        if not below and not self.is_ours and name in known:
            return None
        # An attribute of an event from outside is a text, a number or a boolean.
        certain = bool(below) or self.is_ours or near is not None or not _EXTENSION.fullmatch(name)
        if not certain:
            why += "; only events from outside have further attributes"
        return Gap(0, why, ENVELOPE, certain=certain)

    def _gap_in_data(self, steps: Steps, functions: Functions, through_lists: bool) -> Gap | None:
        fields = DATA_FIELDS.get(self.type or "")
        if not steps or fields is None:
            return None
        name = steps[0]
        if not isinstance(name, str):
            return Gap(1, f"the data of {self.type} is an object", certain=True)
        if name not in fields:
            return Gap(1, f"the data of {self.type} has {', '.join(sorted(fields))}", fields, certain=True)
        if name != "output" or not self.subjects:
            return None
        gaps: list[Gap] = []
        for subject in sorted(self.subjects):
            row = functions.get(subject)
            schema = row["output_schema"] if row is not None else None
            found = find_gap(schema, steps[1:], through_lists=through_lists)
            if found is None:
                return None
            gaps.append(Gap(found.at + 2, f"by the output schema of {subject}, {found.why}", found.names))
        return gaps[0]


def kinds_of(pattern: Pattern) -> tuple[EventKind, ...]:
    """Return the kinds of events that a pattern can match."""
    return tuple(dict.fromkeys(kind for branch in pattern.branches for kind in branch_kinds(branch)))


def branch_kinds(branch: Branch) -> tuple[EventKind, ...]:
    """Return the kinds of events that one branch can match: one for each type that it lists."""
    subjects, patterns = _values(branch, "subject"), _values(branch, "data.pattern")
    types: Iterable[str | None] = _values(branch, "type") or (None,)
    return tuple(EventKind(type_, subjects, patterns) for type_ in sorted(types, key=str))


def _values(branch: Branch, path: str) -> frozenset[str] | None:
    """Return the only texts that a branch accepts at a path; None when it accepts others."""
    for requirement in branch.requirements:
        if requirement.path == path and not requirement.or_absent:
            values = [one.operands[0] for one in requirement.predicates if one.kind == "equal"]
            texts = frozenset(value for value in values if isinstance(value, str))
            if len(values) == len(requirement.predicates) and texts.issuperset(values):
                return texts
    return None
