"""Proposals in tests whose checks a worker runs."""

from __future__ import annotations

import threading
from typing import Any

from functory import Functory
from tests.support.patience import patient

WAIT = patient(60.0)


def ended(engine: Functory, id_: str, *states: str) -> dict[str, Any]:
    """Wait until a proposal is in one of ``states``."""
    pause = threading.Event()
    found = engine.proposals.get(id_)
    for _ in range(int(WAIT / 0.05)):
        if found["state"] in states:
            return found
        pause.wait(0.05)
        found = engine.proposals.get(id_)
    raise AssertionError(f"the proposal is {found['state']}: {found['checks']}")


def check(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a check of a proposal."""
    (one,) = [one for one in found["checks"] if one["name"] == name]
    return one
