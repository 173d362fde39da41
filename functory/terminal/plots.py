"""Plots in plain text: a line of numbers as small bars, and a share as a long one."""

from __future__ import annotations

from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """Return one character for each value, from the lowest bar to the highest; a space for None, and a dot for zero.

    With more values than ``width``, a character stands for the largest of several.
    """
    together = max(1, -(-len(values) // width))
    # The last character holds as many values as the others: the first one may hold fewer.
    ends = range(len(values), 0, -together)
    known = [
        [value for value in values[max(0, end - together) : end] if value is not None]
        for end in reversed(ends)
    ]
    largest = max((max(some) for some in known if some), default=0.0)
    return "".join(_height(max(some), largest) if some else " " for some in known)


def bar(share: float, width: int = 20) -> str:
    """Return a bar for a share from 0 to 1: a full one has ``width`` characters. Anything above zero is seen."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _height(value: float, largest: float) -> str:
    if value <= 0:
        return "·"
    return _HEIGHTS[min(len(_HEIGHTS) - 1, int(value / largest * len(_HEIGHTS)))]
