"""Faults of the embedded engine: one process and one SQLite file, killed at any time and opened again.

Others write into the same file meanwhile: the harness, and commands as a person types them.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3

from functory.dev.server import data_file
from tests.chaos.deployment import kill_tree
from tests.chaos.fault import Chaos, Impossible, fault
from tests.chaos.outcome_counts import Counts
from tests.services.skew import Skew
from tests.support.processes import SCRIPTS

KILLS = 10
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DEV = {"dev": 1}

# By how much a clock is set: many leases, and no longer than a run can wait.
STEP_SECONDS = 60


def whole(chaos: Chaos) -> list[str]:
    """What SQLite finds wrong in the file, as it is now."""
    file = data_file(chaos.settings)
    with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection:
        said = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        said += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
    return [] if said == ["ok"] else said


def submit(chaos: Chaos, number: int) -> None:
    """Start an execution with a command of its own process."""
    command = [str(SCRIPTS / "functory"), "function", "run", "work", "--input", f"order={number}"]
    process = chaos.roles.spawn([*command, "--no-wait", "--quiet"], name=f"submit-{number}")
    if process.wait(120) == 0:
        # Beside a warning that no worker is there to run it.
        chaos.given.executions += [line for line in process.lines if ID.fullmatch(line)]
    else:
        chaos.notes.setdefault("complaints", []).append(process.output)


def undamaged(chaos: Chaos, counts: Counts) -> list[str]:
    """The file was whole after every kill and is now, and no command failed."""
    return chaos.notes.get("complaints", []) + whole(chaos)


@fault("sqlite-embedded", brokers=("none",), embedded=True, layout=DEV, expect=undamaged)
def killed(chaos: Chaos) -> None:
    """Kill the one process with all below it, ten times and more; work comes in between, and while no process runs."""
    complaints = chaos.notes["complaints"] = []
    for number in range(KILLS):
        (dev,) = chaos.wait(lambda: chaos.deployment.of("dev"), "the next process")
        if chaos.rng.random() < 0.7:
            dev.wait_ready(240)
        chaos.pause(0, 2)
        chaos.mark()
        kill_tree(dev)
        dev.wait()
        complaints += whole(chaos)
        if number % 3 == 0:
            submit(chaos, 1000 + number)


def wrong_clock(chaos: Chaos) -> None:
    """SQLite has no clock of its own: the engine goes by the machine's, which can be set here."""
    try:
        clock = chaos.notes["clock"] = Skew(chaos.folder)
    except RuntimeError as reason:
        raise Impossible(str(reason)) from None
    chaos.deployment.places[0].environment |= clock.environment


@fault("clock-step", brokers=("none",), embedded=True, layout=DEV, prepare=wrong_clock, expect=undamaged)
def stepped(chaos: Chaos) -> None:
    """The machine's clock is put forward and back again, under the embedded engine.

    What was due in between waits for as long as the clock was put back; nothing is lost and nothing doubled.
    """
    for seconds in (STEP_SECONDS, 0):
        chaos.pause(1, 2)
        chaos.mark()
        chaos.notes["clock"].set(seconds)
        chaos.pause(3, 5)
