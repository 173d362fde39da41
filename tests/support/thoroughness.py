"""Sets the number of random examples of a test: few in ``make test``, many in ``make test-all``."""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "TESTS_THOROUGH"
# The property of a test (pytest's record_property) that names what it left out; the summary of a run prints it.
LEFT_OUT = "left out"

Amount = TypeVar("Amount", int, float)


def thorough() -> bool:
    """True when this run includes long tests (``--long=all`` or ``--long=sample``)."""
    return os.environ.get(VARIABLE) == "1"


def amount(quick: Amount, long: Amount) -> Amount:
    """The number of examples, seeds or seconds: ``long`` when this run is thorough, else ``quick``."""
    return long if thorough() else quick
