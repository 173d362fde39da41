"""Findings of an inspection, which executes a source and reads its hints. Each says that every execution would fail, so
a version that has one is saved, and not activated without force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from functory.engine.functions.analysis import failed_import, unconvertible_types
from functory.engine.functions.analysis.findings import Finding

if TYPE_CHECKING:
    from functory.engine.functions.declaration import Signature

# The kinds, with what is wrong with a version that has one.
PROBLEMS = {
    failed_import.KIND: "cannot be imported",
    unconvertible_types.KIND: "cannot run as an execution",
}


def findings(signature: Signature | None, content: Mapping[str, Any], packages_known: bool) -> list[Finding]:
    """Return the findings of an inspection about this content; none without an inspection.

    ``packages_known`` is False when the source was executed without the packages that it declares.
    """
    if signature is None:
        return []
    failed = failed_import.finding(signature.import_error, content, packages_known)
    if failed is not None:
        # Hints of a source that was not executed to its end say nothing.
        return [failed]
    return unconvertible_types.findings(signature.unconvertible, content)


def is_reported(warnings: Iterable[str]) -> bool:
    """Return whether the warnings of a version say that an inspection found such a fault when it was saved."""
    warnings = list(warnings)
    return failed_import.is_reported(warnings) or unconvertible_types.is_reported(warnings)


def find(findings: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the kind and the text of the first such finding of a stored version; None when it has none."""
    for one in findings:
        if one["kind"] in PROBLEMS:
            return one["kind"], one["message"].split("\n")[0]
    return None
