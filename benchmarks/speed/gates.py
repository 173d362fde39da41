"""Limits of the counts of a small burst. Counts depend little on the machine; times do, and have no limit."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.speed import loads
from benchmarks.speed.deployments import start
from benchmarks.speed.options import Options

FILE = Path(__file__).with_name("gates.toml")
EVENTS = 300
WARM_UP = 60


def limits() -> dict[str, dict[str, float]]:
    """The limits by deployment and count."""
    return tomllib.loads(FILE.read_text())


def count(name: str, options: Options) -> dict[str, Any]:
    """The counts of a small burst in a deployment of one worker."""
    with start(name, replace(options, workers=1, routers=1, slots=4, subscriber=True)) as deployment:
        loads.warm_up(deployment, WARM_UP)
        return loads.counted_burst(deployment, EVENTS)


def exceeded(name: str, counted: dict[str, Any]) -> list[str]:
    """A sentence for each count above its limit."""
    return [
        f"{name}: {counted[what]:g} {what.replace('_', ' ')} an execution, more than {limit:g}"
        for what, limit in limits()[name].items()
        if counted[what] > limit
    ]


def check(options: Options, say: Callable[[str], None]) -> list[str]:
    """Count in each deployment that has limits; say what is above its limit, and return it."""
    found: list[str] = []
    for name in options.deployments:
        if name not in limits():
            continue
        counted = count(name, options)
        say(
            f"{name}: "
            + ", ".join(
                f"{what} {counted[what]:g} (at most {limit:g})" for what, limit in limits()[name].items()
            )
        )
        found += exceeded(name, counted)
    for sentence in found:
        say(sentence)
    return found
