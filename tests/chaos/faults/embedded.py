"""Faults of the embedded engine: its one process is killed at any time, and its SQLite file is opened again.

Other processes write into the same file at the same time: the harness, and single commands.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3

from functory.engine import sqlite_urls
from tests.chaos.deployment import kill_tree
from tests.chaos.fault import Chaos, Impossible, fault
from tests.chaos.outcome_counts import Counts
from tests.services.skew import Skew
from tests.support.patience import patient
from tests.support.processes import SCRIPTS

KILLS = 10
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DEV = {"dev": 1}

# The change of the clock, in seconds: many leases, and no longer than a run can wait.
STEP_SECONDS = 60


def whole(chaos: Chaos) -> list[str]:
    """The problems that SQLite finds in the file now."""
    file = sqlite_urls.path_of(chaos.settings.database)
    assert file is not None
    with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection:
        said = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        said += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
    return [] if said == ["ok"] else said


def submit(chaos: Chaos, number: int) -> None:
    """Start an execution with a command in a process of its own."""
    command = [str(SCRIPTS / "functory"), "function", "run", "work", "--input", f"order={number}"]
    process = chaos.roles.spawn([*command, "--no-wait", "--quiet"], name=f"submit-{number}")
    if process.wait(patient(120)) == 0:
        # The command also warns that no worker runs.
        chaos.given.executions += [line for line in process.lines if ID.fullmatch(line)]
    else:
        chaos.notes.setdefault("complaints", []).append(process.output)


def undamaged(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the file was undamaged after every kill and is now, and that no command failed."""
    return chaos.notes.get("complaints", []) + whole(chaos)


@fault("sqlite-embedded", brokers=("none",), embedded=True, layout=DEV, expect=undamaged)
def killed(chaos: Chaos) -> None:
    """Kill the process and its descendants ten times or more. Work arrives between the kills, and while no process
    runs."""
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
    """Give the engine a clock that the test can set. SQLite has no clock, so the engine uses the machine's."""
    try:
        clock = chaos.notes["clock"] = Skew(chaos.folder)
    except RuntimeError as reason:
        raise Impossible(str(reason)) from None
    chaos.deployment.places[0].environment |= clock.environment


@fault("clock-step", brokers=("none",), embedded=True, layout=DEV, prepare=wrong_clock, expect=undamaged)
def stepped(chaos: Chaos) -> None:
    """Set the machine's clock forward and back again, under the embedded engine.

    Work that was due in between waits for as long as the clock was set back. Nothing is lost and nothing is doubled.
    """
    for seconds in (STEP_SECONDS, 0):
        chaos.pause(1, 2)
        chaos.mark()
        chaos.notes["clock"].set(seconds)
        chaos.pause(3, 5)
