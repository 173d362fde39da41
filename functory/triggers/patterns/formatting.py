"""Formats values as short text for error messages and explanations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LENGTH = 60


def format_value(value: Any) -> str:
    """Return ``value`` as JSON of at most MAX_LENGTH characters; objects and lists are only named.

    Never fails: a number of 5,000 digits and half a surrogate pair have a text too.
    """
    if isinstance(value, str):
        text = json.dumps(value[:MAX_LENGTH], ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
        return text if len(value) <= MAX_LENGTH else f'{text[:-1]}…" ({len(value)} characters)'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return (
            str(value)
            if value.bit_length() < 200
            else f"a number of about {int(value.bit_length() * 0.30103)} digits"
        )
    if isinstance(value, Mapping):
        return "an object" if value else "{}"
    if isinstance(value, list | tuple):
        return "a list" if value else "[]"
    return repr(value)[:MAX_LENGTH]


def format_values(values: Sequence[Any]) -> str:
    """Return the first three values, comma-separated, and how many there are in all."""
    text = ", ".join(format_value(value) for value in values[:3])
    return text if len(values) <= 3 else f"{text}, … ({len(values)} values)"
