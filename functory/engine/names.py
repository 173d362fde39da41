"""Names of functions, triggers, sources and secrets: their form, and the ones that are reserved."""

from __future__ import annotations

import keyword
import re

from functory.engine.errors import Invalid

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

# What the library itself offers inside a function, and what Python reserves.
RESERVED = frozenset({
    "call", "submit", "submit_many", "gather", "emit", "emit_many", "secret", "state", "llm", "execution", "log",
    "progress", "functions", "register_function", "register_trigger", "functory", "main", "self", "cls",
})  # fmt: skip


def check_name(name: str) -> None:
    """Refuse a name that is not an identifier, or that Python or Functory reserves."""
    if isinstance(name, str) and keyword.iskeyword(name):
        raise Invalid(
            f"{name!r} is not a function name", "it is a keyword of Python", f"call it my_{name.lower()}, say"
        )
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not a function name",
            "a name has characters from a to z and A to Z, digits and _, does not begin with a digit, and is at most "
            "200 characters long",
        )
    if name in RESERVED or (name.startswith("__") and name.endswith("__")):
        raise Invalid(
            f"the name {name} is reserved",
            "Functory offers it inside every function",
            f"call it my_{name.strip('_')}, say",
        )
