"""Faults of the database: unavailable, disconnected, stopped, full. All roles wait for it, and nothing is doubled."""

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

# Longer than a lease of the deployment: every running attempt looks lost afterwards.
AWAY_SECONDS = 6.0

# How long connections are ended, in seconds.
CUT_SECONDS = 5.0

# A database without rows is 10 MB.
DISK_BYTES = 96 * 1024 * 1024


def all_live(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that an outage costs no attempt and ends no process."""
    complaints = nothing_lost(chaos, counts)
    if chaos.deployment.exits:
        complaints.append(f"processes have ended: {dict(chaos.deployment.exits)}")
    return complaints


def recovered(chaos: Chaos) -> None:
    """Wait until a further execution has succeeded."""
    before = chaos.wait(lambda: (succeeded(chaos),), "the database")[0]
    chaos.wait(lambda: succeeded(chaos) > before, "a further success")


@fault("pg-immediate", harms=OWN, expect=all_live)
def immediate(chaos: Chaos) -> None:
    """End every server process at once, twice; the next start recovers from the log."""
    for _ in range(2):
        chaos.pause(0, 2)
        chaos.mark()
        chaos.postgres.crash()
        chaos.pause(0, 2)
        chaos.postgres.start()
        recovered(chaos)


@fault("pg-kill9-backend", expect=all_live)
def kill_backends(chaos: Chaos) -> None:
    """Let the server end random connections of the deployment, for some seconds."""

    def cut(pid: int) -> None:
        chaos.postgres.terminate([pid])

    _cut(chaos, cut)


@fault("pg-crash", harms=OWN, expect=all_live)
def crash(chaos: Chaos) -> None:
    """SIGKILL a server process of a connection: the server then ends all connections and recovers."""

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
        # Right after a crash the server may still refuse connections.
        with contextlib.suppress(psycopg.OperationalError):
            backends = chaos.postgres.backends(chaos.settings.database)
            if backends:
                cut(chaos.rng.choice(backends))
        chaos.pause(0.02, 0.2)
    recovered(chaos)


@fault("pg-stop", harms=OWN, expect=all_live)
def stop(chaos: Chaos) -> None:
    """Stop the database for longer than a lease: no worker can send a heartbeat, and no attempt may be lost."""
    chaos.pause(0, 2)
    chaos.mark()
    chaos.postgres.stop()
    time.sleep(AWAY_SECONDS)
    chaos.postgres.start()
    recovered(chaos)


@fault("pg-pause", harms=OWN, expect=all_live)
def pause(chaos: Chaos) -> None:
    """Stop the server with SIGSTOP for longer than a lease: connections stay open, and every answer is late."""
    chaos.pause(0, 2)
    chaos.mark()
    with chaos.postgres.frozen():
        time.sleep(AWAY_SECONDS)
    recovered(chaos)


@fault("pg-read-only", expect=all_live)
def read_only(chaos: Chaos) -> None:
    """Make the database read-only for longer than a lease, as a failover does: finished results wait for the end."""
    chaos.pause(0, 2)
    chaos.mark()
    with chaos.postgres.read_only(chaos.settings.database):
        time.sleep(AWAY_SECONDS)
    recovered(chaos)


def small_disk(chaos: Chaos) -> None:
    """Move the deployment's database to a small disk, which the test can fill."""
    chaos.client.database.close()
    try:
        chaos.postgres.move_to_small_disk(chaos.settings.database, DISK_BYTES)
    except RuntimeError as refused:
        raise Impossible(f"no namespace for a small disk: {refused}") from None


def reported(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the roles logged the full disk as the reason, and that no work was given up."""
    complaints = all_live(chaos, counts)
    if not chaos.lines("No space left on device"):
        complaints.append("no role logged that the disk was full")
    return complaints


@fault("disk-full-db", harms=OWN, prepare=small_disk, expect=reported)
def disk_full(chaos: Chaos) -> None:
    """Fill the database's disk for some seconds: writers get an error, and continue when there is space."""
    chaos.pause(0, 2)
    chaos.mark()
    with chaos.postgres.full_disk():
        chaos.wait(lambda: chaos.lines("No space left on device"), "the first complaint")
        time.sleep(AWAY_SECONDS)
    recovered(chaos)
