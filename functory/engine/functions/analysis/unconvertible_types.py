"""Unconvertible types: hints that have no JSON form, such as a data frame. An execution can neither get nor return such
a value. Its version is saved, and not activated without force: as a dependency, which gets Python values, it works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functory.engine.functions.analysis.findings import Finding, finding_of

KIND = "unconvertible_type"
_RESULT = "what it returns"


def findings(reported: Iterable[str], content: Mapping[str, Any]) -> list[Finding]:
    """Return the findings about the hints that an inspection reported (``parameter 'rows': a DataFrame has …``).

    A declared schema takes the place of the hints: then they say nothing about what an execution gets.
    """
    declared = content["declared"]
    return [
        finding_of(KIND, 0, 0, text, text.partition(":")[0])
        for text in reported
        if not declared.get("output_schema" if text.startswith(_RESULT) else "input_schema")
    ]


def is_reported(warnings: Iterable[str]) -> bool:
    """Return whether the warnings of a version say that one of its hints had no JSON form when it was saved."""
    return any(" has no JSON form" in warning for warning in warnings)
