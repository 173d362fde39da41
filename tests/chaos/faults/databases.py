"""Faults of the database: away, cut off, still, full. It is the truth: all wait for it, and nothing is doubled."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import psycopg

from tests.chaos.fault import Chaos, Impossible, fault
from tests.chaos.faults.brokers import succeeded
from tests.chaos.faults.workers import nothing_lost
from tests.chaos.outcome_counts import Counts

OWN = ("postgres",)

# Longer than a lease of the deployment: every attempt that runs looks lost afterwards.
AWAY_SECONDS = 6.0

# How long connections are cut.
CUT_SECONDS = 5.0

# A database without rows is 10 MB.
DISK_BYTES = 96 * 1024 * 1024


def all_live(chaos: Chaos, counts: Counts) -> list[str]:
    """An outage costs no attempt, and no process ends of it."""
    complaints = nothing_lost(chaos, counts)
    if chaos.deployment.exits:
        complaints.append(f"processes have ended: {dict(chaos.deployment.exits)}")
    return complaints


def recovered(chaos: Chaos) -> None:
    """Wait until something has succeeded that had not."""
    before = chaos.wait(lambda: (succeeded(chaos),), "the database")[0]
    chaos.wait(lambda: succeeded(chaos) > before, "a further success")


@fault("pg-immediate", harms=OWN, expect=all_live)
def immediate(chaos: Chaos) -> None:
    """Every server process ends at once, and the next start recovers from the log; twice."""
    for _ in range(2):
        chaos.pause(0, 2)
        chaos.mark()
        chaos.postgres.crash()
        chaos.pause(0, 2)
        chaos.postgres.start()
        recovered(chaos)


@fault("pg-kill9-backend", expect=all_live)
def kill_backends(chaos: Chaos) -> None:
    """Random connections of the deployment are ended by the server, for some seconds."""

    def cut(pid: int) -> None:
        chaos.postgres.terminate([pid])

    _cut(chaos, cut)


@fault("pg-crash", harms=OWN, expect=all_live)
def crash(chaos: Chaos) -> None:
    """SIGKILL for a process that serves a connection: the server takes back all of them and recovers."""

    def cut(pid: int) -> None:
        chaos.mark()
        os.kill(pid, signal.SIGKILL)
        chaos.wait(chaos.database.ping, "the server's recovery")
        chaos.pause(0.5, 1.5)

    _cut(chaos, cut)


def _cut(chaos: Chaos, cut: Callable[[int], None]) -> None:
    until = time.monotonic() + CUT_SECONDS
    chaos.mark()
    while time.monotonic() < until:
        # Right after a crash it may not let anybody in yet.
        with contextlib.suppress(psycopg.OperationalError):
            backends = chaos.postgres.backends(chaos.settings.database)
            if backends:
                cut(chaos.rng.choice(backends))
        chaos.pause(0.02, 0.2)
    recovered(chaos)


@fault("pg-stop", harms=OWN, expect=all_live)
def stop(chaos: Chaos) -> None:
    """Away for longer than a lease: no worker could send a heartbeat, and none of them is to blame."""
    chaos.pause(0, 2)
    chaos.mark()
    chaos.postgres.stop()
    time.sleep(AWAY_SECONDS)
    chaos.postgres.start()
    recovered(chaos)


@fault("pg-pause", harms=OWN, expect=all_live)
def pause(chaos: Chaos) -> None:
    """It stands still for longer than a lease, with all connections open and every answer late."""
    chaos.pause(0, 2)
    chaos.mark()
    with chaos.postgres.frozen():
        time.sleep(AWAY_SECONDS)
    recovered(chaos)


def small_disk(chaos: Chaos) -> None:
    """Move the deployment's database to a disk that can be filled."""
    chaos.client.database.close()
    try:
        chaos.postgres.move_to_small_disk(chaos.settings.database, DISK_BYTES)
    except RuntimeError as refused:
        raise Impossible(f"no namespace for a small disk: {refused}") from None


def told(chaos: Chaos, counts: Counts) -> list[str]:
    """What went wrong is said as it is, in a sentence, and nothing was given up."""
    complaints = all_live(chaos, counts)
    if not chaos.lines("No space left on device"):
        complaints.append("missing has said that the disk was full")
    return complaints


@fault("disk-full-db", harms=OWN, prepare=small_disk, expect=told)
def disk_full(chaos: Chaos) -> None:
    """The database's disk is full for a while: writers get an error, and continue when there is space."""
    chaos.pause(0, 2)
    chaos.mark()
    with chaos.postgres.full_disk():
        chaos.wait(lambda: chaos.lines("No space left on device"), "the first complaint")
        time.sleep(AWAY_SECONDS)
    recovered(chaos)
