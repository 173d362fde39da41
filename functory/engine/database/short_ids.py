"""Short ids: ten characters instead of the 36 of a UUIDv7, for people.

They are the first 60 bits of an id, without those of its version: 48 of its time and 12 of the fraction of the
millisecond, in Crockford's base32 (https://www.crockford.com/base32.html), without the leading ``06``. Those two
characters stay the same until December 2030 and are ``07`` then. The beginning of a short id is a range of ids, which
the primary key of a table answers. Everything here is pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)} | {"i": 1, "l": 1, "o": 0}
_LEADS = ("06", "07")
_FULL = 12
LENGTH = _FULL - 2
# A shorter beginning would stand for days.
LEAST = 4
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_IN_COMMAND = re.compile(
    r"(functory(?: -{0,2}[a-z][a-z-]{0,30}){1,5} )([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"
)
# The beginning of a UUID, with a dash, by which it differs from a short id.
_UUID_START = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{0,27}")


@dataclass(frozen=True)
class IdRange:
    """The ids from ``low`` to ``high``, both included."""

    low: str
    high: str


def short(id_: str) -> str:
    """Return the short form of an id: ten characters, or twelve when it was not made between 2022 and 2039."""
    digits = id_.replace("-", "")
    value = int(digits[:12] + digits[13:16], 16)
    text = "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(_FULL)))
    return text[2:] if text.startswith(_LEADS) else text


def is_full(text: str) -> bool:
    """Return True for a whole UUID, with or without dashes."""
    return _UUID.fullmatch(text.lower()) is not None


def in_commands(text: str) -> str:
    """Return ``text`` with the ids of its ``functory`` commands in their short form."""
    return _IN_COMMAND.sub(lambda found: found[1] + short(found[2]), text)


def ranges(text: str) -> list[IdRange]:
    """Return the ranges of ids that begin so; none for what is neither the beginning of a short id nor a UUID's."""
    text = text.lower()
    if _UUID_START.fullmatch(text) and "--" not in text:
        digits = text.replace("-", "")
        return [IdRange(_uuid(digits.ljust(32, "0")[:32]), _uuid(digits.ljust(32, "f")[:32]))]
    if not LEAST <= len(text) <= _FULL or any(letter not in _VALUES for letter in text):
        return []
    leads = ("",) if len(text) > LENGTH else _LEADS
    return [IdRange(_edge(lead + text, "0"), _edge(lead + text, "z")) for lead in leads]


def _edge(start: str, fill: str) -> str:
    value = 0
    for letter in start.ljust(_FULL, fill):
        value = value << 5 | _VALUES[letter]
    digits = f"{value:015x}"
    rest = "8" + "0" * 15 if fill == "0" else "b" + "f" * 15
    return _uuid(f"{digits[:12]}7{digits[12:]}{rest}")


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
