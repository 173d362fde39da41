"""Numbers and durations in sentences."""

from __future__ import annotations


def count_of(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 match``, ``1,204 matches``. ``many`` is ``one`` and an s when not given."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_duration(value: float | None) -> str:
    """Format a duration in seconds with a unit that suits it."""
    if value is None:
        return ""
    if value < 0.001:
        return f"{value * 1_000_000:.0f} µs"
    if value < 1:
        return f"{value * 1000:.3g} ms" if value < 0.9995 else "1 s"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
