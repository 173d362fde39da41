"""The list of scenarios: a module adds its own with :func:`scenario`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.batches.stepped_engine import SteppedEngine

Play = Callable[[SteppedEngine], None]


@dataclass(frozen=True)
class Scenario:
    """``play`` saves functions and triggers, causes events, and settles the engine; ``settings`` are the engine's.

    ``changes``: functions or triggers change after processes have read them.
    """

    name: str
    play: Play
    settings: Mapping[str, Any]
    changes: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(*, changes: bool = False, **settings: Any) -> Callable[[Play], Play]:
    """Add a scenario by the name of its function."""

    def add(play: Play) -> Play:
        SCENARIOS[play.__name__] = Scenario(play.__name__, play, settings, changes)
        return play

    return add
