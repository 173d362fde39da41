"""Messages of wrong fields in Functory's words: what a field must be, not the text of the library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from functory.engine import choices

# By the kind of error (pydantic's documentation, "Validation errors"); {} are fields of its context.
_KINDS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "too_short": "it needs at least {min_length} entries",
    "too_long": "it may have at most {max_length} entries",
    "string_too_short": "it needs at least {min_length} characters",
    "string_too_long": "it may have at most {max_length} characters",
    "string_pattern_mismatch": "it must have the form {pattern}",
    "union_tag_not_found": "its field {discriminator} is missing",
    "finite_number": "it must be a finite number",
}
# By the first word of the kinds about a type: int_parsing, int_type, int_from_float, …
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen": "a list",
    "dict": "an object",
    "model": "an object",
    "mapping": "an object",
    "path": "a path",
    "none": "null",
    "datetime": "a time such as 2026-06-01T12:00:00Z",
    "date": "a date such as 2026-06-01",
}


def describe_faults(error: ValidationError, known: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return (field, what is wrong with it) for each fault. ``known`` are the fields that exist, for suggestions.

    The field is empty for a fault of several fields together. No message contains the value: it may be a secret.
    """
    found = []
    for fault in error.errors(include_url=False, include_input=False):
        place = [str(part) for part in fault["loc"]]
        found.append((".".join(place), _describe(fault, place, tuple(known))))
    return found


def _describe(fault: Mapping[str, Any], place: list[str], known: tuple[str, ...]) -> str:
    kind, context = fault["type"], fault.get("ctx") or {}
    if kind == "union_tag_invalid":
        tags = re.findall(r"'([^']*)'", str(context["expected_tags"]))
        field = str(context["discriminator"]).strip("'")
        return f"{field} {context['tag']!r} is none of {', '.join(tags)}" + choices.suggestion(
            str(context["tag"]), tags
        )
    if kind == "extra_forbidden" and len(place) == 1:
        return _KINDS[kind] + choices.suggestion(place[0], known)
    if kind in _KINDS:
        return _KINDS[kind].format_map({name: _plain(value) for name, value in context.items()})
    if kind in ("value_error", "assertion_error"):
        return fault["msg"].split(", ", 1)[-1]
    wanted = _TYPES.get(kind.split("_")[0])
    return f"it must be {wanted}" if wanted else fault["msg"].replace("Input should", "it should", 1)


def _plain(value: Any) -> str:
    # The name of a discriminator comes in quotes.
    return f"{value:g}" if isinstance(value, float) else re.sub(r"^'(\w+)'$", r"\1", str(value))
