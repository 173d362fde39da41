"""Names of functions, triggers, sources and secrets: their form, and the ones that are reserved."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from functory.engine.errors import Invalid

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

# What the library itself offers inside a function, and what Python reserves.
RESERVED = frozenset({
    "call", "submit", "submit_many", "gather", "emit", "emit_many", "secret", "state", "llm", "execution", "log",
    "progress", "step", "functions", "register_function", "register_trigger", "functory", "main", "self", "cls",
})  # fmt: skip


def author_in_words(author: str | None) -> str:
    """Return who did something, in words: a user by the name alone would be taken for the root of a tree, or a word."""
    if not author:
        return "an operator"
    return author if " " in author else f"the user {author}"


def check_name(name: str) -> None:
    """Refuse a name that is not an identifier, or that Python or Functory reserves."""
    if isinstance(name, str) and keyword.iskeyword(name):
        raise Invalid(
            f"{name!r} is not a function name", "it is a keyword of Python", f"call it my_{name.lower()}, say"
        )
    if not isinstance(name, str) or not NAME.fullmatch(name):
        shown = repr(name) if not isinstance(name, str) else repr(name[:200])
        raise Invalid(
            f"{shown[:300]} is not a function name",
            "a name has characters from a to z and A to Z, digits and _, does not begin with a digit, and is at most "
            "200 characters long",
        )
    if name in RESERVED or (name.startswith("__") and name.endswith("__")):
        raise Invalid(
            f"the name {name} is reserved",
            "Functory offers it inside every function",
            f"call it my_{name.strip('_')}, say",
        )


def made_trigger_name(fields: Mapping[str, Any]) -> str:
    """Return the name of a trigger in BabyAGI's spelling, which has none of its own. Raises :class:`Invalid`."""
    if "event_type" not in fields:
        raise Invalid("the trigger has no name", try_='register_trigger("name", on={…}, function="…")')
    parts = [
        fields["trigger_function"],
        "on",
        fields["event_type"].replace(".", "_"),
        fields.get("target_function") or "any",
    ]
    return "-".join(str(part) for part in parts)
