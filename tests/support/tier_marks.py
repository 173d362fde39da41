"""Marks that run a test in each confinement tier that this machine supports, and skip the others with a reason."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

from functory.workers.sandbox.confinement import landlock
from tests.support import unprivileged
from tests.support.confined_zygote import Contained


@cache
def lacks(tier: str) -> str:
    """The reason why this machine cannot run ``tier``; empty if it can."""
    if tier == "A" and os.geteuid() != 0:
        return "tier A needs root"
    if tier == "C" and not landlock.abi():
        return "tier C needs Landlock"
    if tier != "A" and (why := unprivileged.missing()):
        return why
    said = Contained(tier, "pass").finish()
    return "" if said == [["ended", 0]] else f"tier {tier}: {said}"


def tiers(*names: str) -> Any:
    """Run a test once for each tier of ``names``, as its argument ``tier``."""
    marks = [pytest.param(n, marks=pytest.mark.skipif(bool(lacks(n)), reason=lacks(n))) for n in names]
    return pytest.mark.parametrize("tier", marks)


every = tiers("A", "B", "C")
namespaced = tiers("A", "B")
