"""Limits of a function on the command line: ``--limit memory_bytes=1GiB``, ``--limit cpu=2m``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functory.cli.input import values
from functory.engine.functions.limits import ERROR_NAMES
from functory.engine.serialization import durations, written_quantities

_TIMES = frozenset({"timeout", "cpu", "retry_delay", "retry_max_delay", "expires"})


def parse(pairs: Iterable[str]) -> dict[str, Any]:
    """Return ``name=value`` pairs as limits. Sizes may have units (KiB, MiB, GiB, TiB), and times too (90s, 2m);
    names of errors are separated by commas.

    Raises :class:`Invalid`; names and bounds are checked when the function is saved.
    """
    given = values.parse_pairs(pairs, "--limit", "--limit memory_bytes=1GiB")
    return {name: _read(name, value) for name, value in given.items()}


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if name in ERROR_NAMES:
        return value.split(",")
    if name in _TIMES:
        return durations.parse(value, f"limit {name}")
    if name.endswith("_bytes"):
        return written_quantities.size(value, f"limit {name}")
    return value
