"""Faults of replication: the primary is lost, and its standby takes over.

With asynchronous replication the last acknowledged commits may be gone; with synchronous replication none is. The
invariants hold in both cases: a standby is a state that the database had.
"""

from __future__ import annotations

from tests.chaos.fault import Chaos, Impossible, fault
from tests.chaos.faults.databases import recovered
from tests.chaos.outcome_counts import Counts
from tests.services.standby import Standby

# Acknowledged pieces of work that the standby never gets.
FORGOTTEN = 2


def follow(chaos: Chaos, *, synchronous: bool) -> None:
    """Give the deployment's server a standby."""
    primary = chaos.postgres
    if not primary.programs["postgres"].with_name("pg_basebackup").exists():
        raise Impossible("PostgreSQL's pg_basebackup is not installed")
    chaos.client.database.close()
    chaos.notes["settings"] = primary.settings
    standby = chaos.notes["standby"] = chaos.resources.enter_context(Standby(primary.programs, primary))
    if synchronous:
        standby.confirm_commits()
    standby.wait_for_stream()


def follow_asynchronously(chaos: Chaos) -> None:
    """Give it a standby that the primary does not wait for."""
    follow(chaos, synchronous=False)


def follow_synchronously(chaos: Chaos) -> None:
    """Give it a standby that has each commit before it is acknowledged."""
    follow(chaos, synchronous=True)


def acknowledged(chaos: Chaos) -> int:
    """The pieces of work that were acknowledged."""
    return len(chaos.given.events) + len(chaos.given.executions)


def fail_over(chaos: Chaos) -> None:
    """Kill the primary, and let the standby take over at the address that the roles know."""
    standby: Standby = chaos.notes["standby"]
    chaos.mark()
    chaos.postgres.kill()
    # It is started again only to be cleaned up, and then waits for no standby.
    chaos.postgres.settings = chaos.notes["settings"]
    standby.promote()
    chaos.proxies["postgres"].lead_to(standby.url)
    recovered(chaos)


def some_forgotten(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the harm was done, and that no process has ended."""
    complaints = none_ended(chaos, counts)
    if counts.forgotten < FORGOTTEN:
        complaints.append(f"only {counts.forgotten} acknowledged pieces are gone: the standby was not behind")
    return complaints


def none_ended(chaos: Chaos, _counts: Counts) -> list[str]:
    """Check that no process has ended."""
    if chaos.deployment.exits:
        return [f"processes have ended: {dict(chaos.deployment.exits)}"]
    return []


@fault(
    "pg-failover-async",
    harms=("postgres",),
    proxied=("postgres",),
    prepare=follow_asynchronously,
    expect=some_forgotten,
    forgets=True,
)
def asynchronous(chaos: Chaos) -> None:
    """Promote a standby that has not got the last acknowledged work."""
    chaos.notes["standby"].cut_off()
    before = acknowledged(chaos)
    # The standby may have the piece that is being given now.
    chaos.wait(lambda: acknowledged(chaos) > before + FORGOTTEN, "further work")
    fail_over(chaos)


@fault(
    "pg-failover-sync",
    harms=("postgres",),
    proxied=("postgres",),
    prepare=follow_synchronously,
    expect=none_ended,
)
def synchronous(chaos: Chaos) -> None:
    """Promote a standby that is cut off before the end: nothing is acknowledged from then on."""
    chaos.notes["standby"].cut_off()
    chaos.pause(0.5, 1.5)
    fail_over(chaos)
