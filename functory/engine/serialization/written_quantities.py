"""Sizes, shares, rates and counts as people write them: one reader for each kind, which takes one spelling or refuses.

What could be read in two ways is refused with the right way to write it: ``1GB``, ``1m`` of bytes, ``1,5``. Digits are
those of ASCII. Lengths of time are read by :mod:`functory.engine.serialization.durations`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import durations

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([0-9]{1,15})(|KiB|MiB|GiB|TiB)")
# Beyond what a text of 15 digits and TiB names; Python writes no integer of thousands of digits.
_MAX_SIZE = 10**28
# What people write for a size, to say what they perhaps mean.
_SIZE_LIKE = re.compile(r"([0-9]{1,12}) ?([kmgt])(i?b)?", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}")
_SHARE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)(%?)")
_GROUPS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,4}(?:\.[0-9]{1,12})?")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,12})?")


@dataclass(frozen=True)
class Rate:
    """At most ``limit`` in a ``period`` (a length of time as it was written), ``burst`` of them at once."""

    limit: int
    period: str
    burst: int | None = None


def count(text: str, what: str) -> int:
    """Return a whole number of at most nine digits. Raises :class:`Invalid`."""
    if not _COUNT.fullmatch(text):
        raise Invalid(f"wrong {what}", f"{text[:40]!r} is not a whole number", "digits alone, such as 1000")
    return int(text)


def size(given: Any, what: str) -> int:
    """Return a number of bytes: a whole number, or a text with a unit (KiB, MiB, GiB, TiB). Raises :class:`Invalid`."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < _MAX_SIZE:
        return given
    text = str(given) if not isinstance(given, int) or abs(given) < _MAX_SIZE else "a number of many digits"
    found = _SIZE.fullmatch(text)
    if found is None:
        like = _SIZE_LIKE.fullmatch(text[:40])
        meant = f"{like[1]}{like[2].upper()}iB" if like else "512MiB"
        raise Invalid(
            f"wrong {what} {text[:40]!r}",
            "a size is a number of bytes, or one with a unit of 1024 (KiB, MiB, GiB, TiB)",
            f"{meant}, which is {_UNITS[meant.lstrip('0123456789')] * int(meant[:-3]):,} bytes",
        )
    return int(found[1]) * _UNITS[found[2]]


def format_size(size_: int) -> str:
    """Return a number of bytes with the largest unit that leaves it whole; :func:`size` reads it."""
    unit = next(
        name for name, bytes_ in reversed(_UNITS.items()) if bytes_ == 1 or (size_ and size_ % bytes_ == 0)
    )
    return f"{size_ // _UNITS[unit]}{unit}"


def share(text: str, what: str) -> float:
    """Return a share from 0 to 1, which is written as ``10%`` or as ``0.1``. Raises :class:`Invalid`."""
    found = _SHARE.fullmatch(text)
    value = None if found is None else Decimal(found[1]) / (100 if found[2] else 1)
    if value is None or value > 1 or (value == 1 and text != "100%"):
        number = None if found is None or found[2] else found[1]
        raise Invalid(
            f"wrong {what} {text[:40]!r}",
            "a share is a percentage, or a number below 1",
            f"{number}%" if number and Decimal(number) <= 100 else "10%, or 0.1",
        )
    return float(value)


def format_share(share_: float) -> str:
    """Return a share as a percentage with as many digits as it has; :func:`share` reads it."""
    text = f"{Decimal(repr(share_)) * 100:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def rate(text: str, what: str) -> Rate:
    """Return a rate, which is written as ``LIMIT/PERIOD`` or ``LIMIT/PERIOD/BURST``. Raises :class:`Invalid`."""
    limit, _, rest = text.partition("/")
    period, slash, burst = rest.partition("/")
    if not limit or not period or (slash and not burst) or "/" in burst:
        raise Invalid(
            f"wrong {what} {text[:40]!r}",
            "its form is LIMIT/PERIOD or LIMIT/PERIOD/BURST",
            f"{what} 3/1m, or 3/1m/2 for 2 at once",
        )
    found = Rate(count(limit, what), period, count(burst, what) if slash else None)
    if period in ("s", "m", "h", "d", "w"):
        raise Invalid(
            f"wrong {what} {text[:40]!r}", "the period is a number and a unit", f"{what} {limit}/1{period}"
        )
    durations.parse(period, f"period of {what}")
    return found


def format_rate(rate_: Rate) -> str:
    """Return a rate as it is written; :func:`rate` reads it."""
    return f"{rate_.limit}/{rate_.period}" + ("" if rate_.burst is None else f"/{rate_.burst}")


def amount(text: str) -> Decimal | None:
    """Return a number that is written with digits and one point, after a ``$`` also with groups of thousands; None for
    everything else, as ``1,5`` and ``1_000``.
    """
    if text.startswith("$"):
        text = text[1:].replace(",", "") if _GROUPS.fullmatch(text[1:]) else text[1:]
    return Decimal(text) if _NUMBER.fullmatch(text) else None
