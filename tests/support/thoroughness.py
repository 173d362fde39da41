"""How thorough a test of random examples is: quick in ``make test``, thorough in ``make test-all``."""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "TESTS_THOROUGH"

Amount = TypeVar("Amount", int, float)


def thorough() -> bool:
    """Whether this run takes its time (``--long=all`` or ``--long=sample``)."""
    return os.environ.get(VARIABLE) == "1"


def amount(quick: Amount, long: Amount) -> Amount:
    """The number of examples, seeds or seconds: ``quick`` of them, or ``long`` where this run takes its time."""
    return long if thorough() else quick
