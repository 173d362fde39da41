"""Lengthens the limits of the tests on a slow or busy machine, by one factor for the whole run.

A limit in a test is there to end a hang, not to measure. Its seconds are chosen for a quiet machine with a core for
each process of the run; ``patient`` makes them longer by as much as this run is slower than that. The first process of
a run measures it, and its children read it from the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

# The factor of all processes of a run.
VARIABLE = "TESTS_PATIENCE"
# Seconds that the measured work takes on a quiet machine of the kind on which the limits were chosen.
QUIET_SECONDS = 0.1
# A hang is found within reasonable time also on a machine that hardly gets on.
MOST = 10.0


def patient(seconds: float) -> float:
    """A limit of ``seconds`` on a quiet machine, in seconds of this run."""
    return seconds * factor()


def factor() -> float:
    """By how much this run is slower than a quiet machine: at least 1, at most ``MOST``."""
    return float(os.environ.get(VARIABLE) or 1)


def measure(processes: int) -> float:
    """Measure the factor of a run of N processes, for this process and those that it starts."""
    given = os.environ.get(VARIABLE)
    if given is None:
        shared = max(1.0, processes / (os.cpu_count() or 1))
        os.environ[VARIABLE] = f"{min(MOST, max(1.0, shared * _seconds() / QUIET_SECONDS)):.2f}"
    return factor()


def _seconds() -> float:
    """The seconds that starting Python with a few modules takes now, as a mean of three: processor, memory and disk."""
    began = time.monotonic()
    for _ in range(3):
        subprocess.run([sys.executable, "-c", "import asyncio, email.message, json, unittest"], check=True)
    return (time.monotonic() - began) / 3
