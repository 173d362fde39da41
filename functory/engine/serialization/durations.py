"""Durations as people write them: ``90``, ``"90s"``, ``"1m30s"``, ``"500ms"``, ``"7d"``; zero needs no unit."""

from __future__ import annotations

import math
import re
from typing import Any

from functory.engine.errors import Invalid

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_TEXT = re.compile(r"(?a:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_NUMBER = re.compile(r"(?a:\d+(\.\d+)?)")
_ZERO = re.compile(r"0+(?:\.0+)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse(given: Any, what: str, minimum: float = 0.0, maximum: float = math.inf) -> float:
    """Return a length of time in seconds. ``what`` names it in messages. Raises :class:`Invalid`."""
    value = _read(given)
    shown = _shown(given)
    if value is None and isinstance(given, str) and len(given) <= 64 and _NUMBER.fullmatch(given):
        raise Invalid(
            f"wrong {what} {shown}",
            "the number has no unit",
            f"{given}s for seconds, {given}m for minutes, {given}h for hours, {given}d for days",
        )
    if value is None:
        raise Invalid(
            f"wrong {what} {shown}",
            "it must be a number of seconds, or numbers with units (ms, s, m, h, d, w), each once and without spaces",
            f'{what}: "90s", "5m", "1h30m" or "2d"',
        )
    if not minimum <= value <= maximum:
        bounds = f"from {format_duration(minimum)}" + (
            f" to {format_duration(maximum)}" if maximum < math.inf else " on"
        )
        raise Invalid(f"wrong {what} {shown}", f"it must be {bounds}")
    return value


def format_duration(value: float) -> str:
    """Return seconds as people write them: ``1h30m``, ``2.5s``."""
    if not math.isfinite(value) or value < 0:
        return f"{value:g}s"
    whole, rest = divmod(value, 60)
    parts: list[str] = []
    for unit, size in (("d", 1440), ("h", 60), ("m", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count:.0f}{unit}")
    if rest or not parts:
        parts.append(f"{rest:.3f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def _shown(given: Any) -> str:
    """Return what was given for a message: a text of a megabyte is not repeated."""
    if isinstance(given, int) and abs(given) >= 10**40:
        return "a number of more than 40 digits"
    text = repr(given[:100] if isinstance(given, str) else given)
    return text if len(text) <= 120 else f"{text[:100]}…"


def _read(given: Any) -> float | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int | float):
        # Compared first: no float holds an integer of many digits.
        return float(given) if abs(given) < 1e12 else None
    if isinstance(given, str) and _ZERO.fullmatch(given[:64]):
        return 0.0
    if isinstance(given, str) and len(given) <= 64 and _TEXT.fullmatch(given):
        parts = _PART.findall(given)
        if len({unit for _, unit in parts}) < len(parts):
            return None
        value = sum(float(number) * _UNITS[unit] for number, unit in parts)
        return value if value < 1e12 else None
    return None
