"""The rules of the gate: what a proposal must show, who approves it, and how it is rolled out. Pure.

{"tests": "required", "mutants": 0.6, "approval": {"none": "one", "acts": "two", "replaces": "one"}, "canary": 0.1}

Where several policies apply, the strictest of all rules holds: no policy loosens another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.errors import Invalid

TESTS = ("off", "warn", "required")
# How many persons must approve; auto: none, never: it is refused.
APPROVALS = ("auto", "one", "two", "never")
# Effects of a function (functory.engine.agents.tools): what a version may do with all its rights. Then what else raises
# the number of persons: it replaces an active version, it has rights that the version before has not, it needs new
# packages. The last one is for a function that only its run may use, and only until the run ends.
OCCASIONS = ("none", "reads", "acts", "replaces", "widens", "packages", "ephemeral")
FIELDS = ("tests", "mutants", "approval", "canary", "days")
# The share of a canary; 0 is none.
MIN_CANARY, MAX_CANARY, MAX_DAYS = 0.01, 0.5, 365
# Without a policy.
USUAL: Mapping[str, Any] = {
    "tests": "required",
    "mutants": 0.6,
    "approval": {**dict.fromkeys(OCCASIONS, "one"), "ephemeral": "auto"},
    "canary": 0.0,
    "days": 7,
}


def check(given: Any) -> dict[str, Any]:
    """Return all rules; those that ``given`` does not name are the usual ones. Raises :class:`Invalid`."""
    if not isinstance(given, Mapping):
        raise Invalid("wrong rules", f"they are an object with {', '.join(FIELDS)}")
    if unknown := next((name for name in given if name not in FIELDS), None):
        raise Invalid(f"there is no rule {str(unknown)[:80]!r}", f"the rules are {', '.join(FIELDS)}")
    tests = given.get("tests", USUAL["tests"])
    if tests not in TESTS:
        raise Invalid(f"wrong rule tests={str(tests)[:40]!r}", f"it is one of {', '.join(TESTS)}")
    return {
        "tests": tests,
        "mutants": _number(given.get("mutants", USUAL["mutants"]), "mutants", 1.0),
        "approval": {**USUAL["approval"], **_approval(given.get("approval", {}))},
        "canary": _canary(given.get("canary", USUAL["canary"])),
        "days": _days(given.get("days", USUAL["days"])),
    }


def combine(rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the strictest of each rule; the usual ones without any."""
    if not rules:
        return check({})
    shares = [one["canary"] for one in rules if one["canary"] > 0]
    return {
        "tests": max((one["tests"] for one in rules), key=TESTS.index),
        "mutants": max(one["mutants"] for one in rules),
        "approval": {
            name: max((one["approval"][name] for one in rules), key=APPROVALS.index) for name in OCCASIONS
        },
        # A smaller share is the stricter one; none at all is the least strict.
        "canary": min(shares, default=0.0),
        "days": min(one["days"] for one in rules),
    }


def approval_needed(
    rules: Mapping[str, Any], rights: Mapping[str, Any], *, is_ephemeral: bool, is_unproven: bool
) -> tuple[str, list[str]]:
    """Return how many persons must approve (:data:`APPROVALS`), and the occasions that say so.

    ``rights`` are those of :mod:`functory.engine.releases.version_rights`. An ephemeral function that only computes
    needs what the rule ``ephemeral`` says; any other one what its effect says. ``is_unproven``: a check has warned, so
    at least one person must look.
    """
    effect = rights["effect"]
    occasions = ["ephemeral" if is_ephemeral and effect == "none" else effect]
    occasions += [name for name in ("replaces", "widens", "packages") if rights[name]]
    needed = max((rules["approval"][name] for name in occasions), key=APPROVALS.index)
    why = [name for name in occasions if rules["approval"][name] == needed]
    if needed == "auto" and is_unproven:
        return "one", ["a check has warned"]
    return needed, why


def _approval(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise Invalid("wrong rule approval", f"it is an object with {', '.join(OCCASIONS)}")
    for name, value in given.items():
        if name not in OCCASIONS:
            raise Invalid(
                f"approval has no occasion {str(name)[:80]!r}", f"the occasions are {', '.join(OCCASIONS)}"
            )
        if value not in APPROVALS:
            raise Invalid(
                f"wrong approval {name}={str(value)[:40]!r}", f"it is one of {', '.join(APPROVALS)}"
            )
    return dict(given)


def _number(given: Any, name: str, most: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= most:
        raise Invalid(f"wrong rule {name}={str(given)[:40]!r}", f"it is a number from 0 to {most:g}")
    return float(given)


def _canary(given: Any) -> float:
    share = _number(given, "canary", MAX_CANARY)
    if 0 < share < MIN_CANARY:
        raise Invalid(
            f"wrong rule canary={share:g}",
            f"it is 0 (none), or a share from {MIN_CANARY:g} to {MAX_CANARY:g}",
        )
    return share


def _days(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_DAYS:
        raise Invalid(f"wrong rule days={str(given)[:40]!r}", f"it is a whole number from 1 to {MAX_DAYS}")
    return given
