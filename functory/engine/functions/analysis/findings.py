"""Static findings: advice about a source before it runs.

A finding is about a grant, a name of the engine, or a call that fails at run time. General advice about Python code
is the work of a linter (ruff, bandit). Findings are not the boundary: Python code can hide anything from a reader, and
the sandbox decides what it can reach. An operator may refuse kinds of findings at the save (setting
``refuse_findings``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functory.engine import python_syntax
from functory.engine.errors import Invalid
from functory.engine.functions.analysis.checks import Checks
from functory.engine.functions.analysis.declared_rights import DeclaredRights, declared_rights
from functory.engine.functions.analysis.rules import RULES, SEVERITIES, Severity
from functory.engine.serialization import combining_marks

# What a module may do is the same question as for the function; its own calls and names are not.
_KINDS_OF_MODULES = frozenset(
    {"undeclared_import", "undeclared_secret", "dynamic_secret", "undeclared_permission", "subprocess"}
    | {"network", "files"}
)
# Marks of direction, and characters without width that are no part of a script or of an emoji. A joiner is.
_HIDDEN = re.compile(
    "[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
# At most this many findings of one kind are kept, so that a hostile source cannot fill the database.
MAX_PER_KIND = 20


@dataclass(frozen=True)
class Finding:
    """One finding. ``line`` counts from 1, ``column`` from 0 as in ``ast``; both are 0 for a finding without a place.

    ``message`` has three lines: what was found, why it matters, what to do. ``detail`` is the name in question, for
    programs: ``os.system``, ``API_KEY``, ``numpy``.
    """

    kind: str
    severity: Severity
    line: int
    column: int
    message: str
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Return a stored finding. Kinds that no longer exist are shown as they were stored."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})


def analyze(text: str, declared: DeclaredRights | None = None, module: str = "") -> list[Finding]:
    """Return all findings of a source, by line. Executes nothing, and raises for no ``text``.

    With ``module``, the text is the module of that name, and not the source that defines the function.

    The first :data:`MAX_PER_KIND` findings of each kind are kept; the last of them gives the number of the others.
    """
    if combining_marks.has_too_many(text):
        reason = "the source cannot be checked: it has too many combining marks in a row"
        return [finding_of("unreadable", 0, 0, reason, "ValueError")]
    try:
        checks = Checks(python_syntax.parse(text), declared or DeclaredRights())
        checks.run()
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = f"the source cannot be checked: {str(error).split(chr(10))[0] or type(error).__name__}"
        return [finding_of("unreadable", 0, 0, reason, type(error).__name__)]
    found = [] if text.isascii() else _hidden_characters(text, module)
    seen: set[tuple[str, int, str]] = set()
    for kind, node, what, detail in checks.found:
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        if (kind, line, detail) in seen or (module and kind not in _KINDS_OF_MODULES):
            continue
        if module and detail.startswith("."):
            # Only a module has a package to import from.
            continue
        seen.add((kind, line, detail))
        if module:
            found.append(finding_of(kind, 0, 0, f"{module}, line {line}: {what}", detail))
        else:
            found.append(finding_of(kind, line, column, what, detail))
    return _limit_per_kind(
        sorted(found, key=lambda finding: (finding.line, finding.column, finding.kind, finding.detail))
    )


def _hidden_characters(text: str, module: str) -> list[Finding]:
    """Return the characters that hide what a text says, one finding for each line."""
    found: list[Finding] = []
    for number, line in enumerate(text.splitlines(), 1):
        first = _HIDDEN.search(line)
        if first is not None:
            code = f"U+{ord(first[0]):04X}"
            place = f"{module}, line {number}: " if module else ""
            what = f"{place}the text holds the hidden character {code}"
            found.append(
                finding_of(
                    "hidden_characters", 0 if module else number, 0 if module else first.start(), what, code
                )
            )
    return found


@dataclass(frozen=True)
class Review:
    """The findings of a content that becomes a version, with everything that they depend on."""

    source: str
    modules: Mapping[str, str]
    declared: DeclaredRights
    findings: tuple[Finding, ...]

    def as_json(self) -> list[dict[str, Any]]:
        return [finding.as_json() for finding in self.findings]


def review(
    content: Mapping[str, Any], earlier: Review | None = None, *, modules: Mapping[str, str] | None = None
) -> Review:
    """Return the findings of a content and of the texts of its ``modules``; those of an ``earlier`` review while
    everything that they depend on is the same.

    So the source is analyzed before the transaction, and again inside it only after a concurrent change.
    """
    declared = declared_rights(content)
    texts = dict(modules or {})
    same = (content["source"], texts, declared)
    if earlier is not None and (earlier.source, earlier.modules, earlier.declared) == same:
        return earlier
    found = analyze(content["source"], declared)
    for name, text in texts.items():
        found += analyze(text, declared, name)
    return Review(content["source"], texts, declared, tuple(_limit_per_kind(found)))


def summary(finding: Mapping[str, Any]) -> str:
    """Return a stored finding on one line: its place, what was found, its kind."""
    what = finding["message"].split("\n")[0]
    return f"{'line {}: '.format(finding['line']) if finding['line'] else ''}{what} ({finding['kind']})"


def check_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """Return the kinds that a policy refuses; ``danger`` means all of that severity.

    Raises :class:`Invalid` for an unknown one.
    """
    refused: set[str] = set()
    for kind in kinds:
        if kind not in RULES and kind not in SEVERITIES:
            known = ", ".join([*sorted(RULES), *SEVERITIES])
            raise Invalid(f"unknown kind of finding {kind!r} in refuse_findings", f"the kinds are {known}")
        refused.update(name for name, known in RULES.items() if kind in (name, known.severity))
    return frozenset(refused)


def check_allowed(name: str, findings: Iterable[Finding], kinds: Iterable[str]) -> None:
    """Raise :class:`Invalid` when one of ``findings`` is of the ``kinds`` that the operator refuses."""
    refused = check_kinds(kinds)
    for finding in findings:
        if finding.kind in refused:
            place = f"line {finding.line}: " if finding.line else ""
            reason, _, advice = finding.message.partition("\ntry: ")
            raise Invalid(
                f"{name} has a finding that is refused here: {finding.kind}",
                f"{place}{reason}",
                f"{advice}; the setting refuse_findings includes {finding.kind}",
            )


def count_by_kind(findings: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of stored findings of each kind, for the events of a function."""
    return dict(sorted(Counter(finding["kind"] for finding in findings).items()))


def finding_of(kind: str, line: int, column: int, what: str, detail: str) -> Finding:
    """Return a finding of a known kind, with its reason and its remedy."""
    rule = RULES[kind]
    return Finding(kind, rule.severity, line, column, f"{what}\n{rule.why}\ntry: {rule.try_}", detail)


def _limit_per_kind(findings: list[Finding]) -> list[Finding]:
    total = Counter(finding.kind for finding in findings)
    taken: Counter[str] = Counter()
    kept: list[Finding] = []
    for finding in findings:
        taken[finding.kind] += 1
        if taken[finding.kind] < MAX_PER_KIND or total[finding.kind] == MAX_PER_KIND:
            kept.append(finding)
        elif taken[finding.kind] == MAX_PER_KIND:
            more = total[finding.kind] - MAX_PER_KIND
            what, _, rest = finding.message.partition("\n")
            kept.append(replace(finding, message=f"{what}, and {more} more of this kind\n{rest}"))
    return kept
