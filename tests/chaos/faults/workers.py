"""Faults of workers: killed as a whole or in part, stopped softly, paused and resumed, out of memory, without
messages."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil
import sqlalchemy as sa

from functory.engine.database.schema import attempt, execution
from functory.workers.processes.shutdown_signals import EX_TEMPFAIL
from tests.chaos import workload
from tests.chaos.deployment import descendants, kill_tree, send
from tests.chaos.fault import Chaos, fault
from tests.chaos.outcome_counts import ZOMBIE, Counts
from tests.chaos.workload import ORDERS, Workload
from tests.support.processes import Role

PREFORK = {"worker": ("--pool", "prefork", "--slots", "2")}


def nothing_lost(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that no attempt was lost, unless the machine was too slow to send heartbeats."""
    if counts.longest_pause > chaos.settings.lease_seconds / 2:
        return []
    if counts.attempts_lost or counts.attempts_crashed or counts.zombies_rejected:
        return [
            f"{counts.attempts_lost} attempts were lost, {counts.attempts_crashed} crashed, "
            f"{counts.zombies_rejected} were refused"
        ]
    return []


def interrupted(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the harm hit a running attempt: otherwise the run proves nothing."""
    if not (counts.attempts_lost or counts.attempts_crashed or counts.released):
        return ["no attempt was interrupted"]
    return []


def given_back(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that a softly stopped worker released its executions, and that they do not count as attempts."""
    complaints = nothing_lost(chaos, counts)
    if not counts.released:
        complaints.append("nothing was given back")
    with chaos.database.read() as tx:
        counted = tx.rows(
            sa.select(execution.c.id, execution.c.attempt)
            .join(attempt, attempt.c.execution_id == execution.c.id)
            .where(attempt.c.outcome == "released", execution.c.attempt != 1)
        )
    return complaints + [f"{row['id']} counts {row['attempt']} attempts, not 1" for row in counted]


# On a busy machine an execution may end between the check and the kill.
BLOWS = 5


def strike(chaos: Chaos, blow: Callable[[Role], None]) -> None:
    """Harm a busy worker so that it ends; repeat with another one if the first had just become idle."""
    for _ in range(BLOWS):
        victim = chaos.busy_worker()
        chaos.mark()
        blow(victim)
        chaos.wait(lambda victim=victim: victim.process.poll() is not None, "the worker's end")
        if _was_hit(chaos, attempt.c.worker_id.like(f"%:{victim.pid}:%")):
            return


def _was_hit(chaos: Chaos, whose: Any) -> bool:
    """True when an attempt of a dead worker was interrupted: it is still open, or did not end by itself."""
    spoilt = sa.or_(attempt.c.ended_at.is_(None), attempt.c.outcome.in_(("lost", "crashed", "released")))
    with chaos.database.read() as tx:
        return bool(tx.scalar(sa.select(sa.func.count()).where(whose, spoilt)))


@fault("none", expect=nothing_lost)
def none(chaos: Chaos) -> None:
    """Do nothing, for comparison with the other faults."""


@fault("worker-kill9-group", expect=interrupted)
def kill_group(chaos: Chaos) -> None:
    """Kill a worker and all its descendants at once, as when its container is killed."""
    chaos.pause(0, 2)
    strike(chaos, kill_tree)


@fault("worker-kill9-main", expect=interrupted)
def kill_main(chaos: Chaos) -> None:
    """Kill a worker's main process alone, as the kernel does when memory is short."""
    chaos.pause(0, 2)
    strike(chaos, Role.kill)


@fault("worker-kill9-child")
def kill_child(chaos: Chaos) -> None:
    """Kill four random processes below workers: a child, a zygote or a spare."""
    for _ in range(4):
        chaos.pause(0.2, 1)
        below = descendants(chaos.busy_worker())
        if below:
            chaos.mark()
            send([chaos.rng.choice(below)], signal.SIGKILL)


@fault(
    "prefork-kill9-child",
    # Without a broker there is no Celery and no pool.
    brokers=("redis", "rabbitmq"),
    arguments=PREFORK,
    traces=True,
    expect=interrupted,
)
def kill_prefork_child(chaos: Chaos) -> None:
    """Kill a child of Celery's prefork pool, which has a slot and an executor of its own."""

    def in_use() -> list[int]:
        rows = chaos.client.executions.list(state="running", limit=100)
        return sorted({int(row["worker_id"].split(":")[-2]) for row in rows if row["worker_id"]})

    chaos.pause(0, 2)
    for _ in range(BLOWS):
        victim = chaos.rng.choice(chaos.wait(in_use, "a child that works"))
        chaos.mark()
        send([victim], signal.SIGKILL)
        chaos.wait(lambda victim=victim: not psutil.pid_exists(victim), "the child's end")
        if _was_hit(chaos, attempt.c.worker_id.like(f"%:{victim}:%")):
            return


@fault("worker-term", settings={"grace_seconds": 0.3}, expect=given_back)
def term(chaos: Chaos) -> None:
    """Send SIGTERM, with a shorter grace time than the work takes."""
    chaos.pause(0, 1)
    strike(chaos, lambda victim: victim.signal(signal.SIGTERM))


@fault("worker-term-twice", settings={"grace_seconds": 600.0}, expect=given_back)
def term_twice(chaos: Chaos) -> None:
    """Send SIGTERM with a long grace time, then a second one, which ends the worker at once."""

    def twice(victim: Role) -> None:
        victim.signal(signal.SIGTERM)
        victim.wait_for("stopping", 120)
        victim.signal(signal.SIGTERM)

    chaos.pause(0, 1)
    strike(chaos, twice)


def zombie_refused(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that a worker that slept through its lease noticed it, and continued to work."""
    complaints = interrupted(chaos, counts)
    if not counts.zombies_rejected:
        complaints.append("no zombie was rejected")
    gone = {what: number for what, number in chaos.deployment.exits.items() if what.startswith("worker")}
    if gone:
        complaints.append(f"a worker ended: {gone}")
    return complaints


def sleep_through_lease(chaos: Chaos, victim: Role, sleeping: list[int]) -> bool:
    """SIGSTOP the victim until all its claims are lost, and a little longer. False when it held none."""
    send(sleeping, signal.SIGSTOP)
    chaos.mark()
    try:
        return outlast(chaos, victim)
    finally:
        send(reversed(sleeping), signal.SIGCONT)


def outlast(chaos: Chaos, victim: Role) -> bool:
    """Wait until all claims of a stopped victim are lost, and a little longer. False when it holds none."""
    with chaos.database.read() as tx:
        held = tx.rows(
            sa.select(execution.c.id, execution.c.fence).where(
                execution.c.state == "running", execution.c.worker_id.like(f"%:{victim.pid}:%")
            )
        )
    keys = [(row["id"], row["fence"]) for row in held]
    lost = sa.select(sa.func.count()).where(
        sa.tuple_(attempt.c.execution_id, attempt.c.fence).in_(keys), attempt.c.ended_at.is_not(None)
    )

    def all_lost() -> bool:
        with chaos.database.read() as tx:
            return tx.scalar(lost) == len(keys)

    if keys:
        chaos.wait(all_lost, "the loss of what the sleeper held")
        chaos.pause(0, 2)
    return bool(keys)


@fault("worker-stop-resume", expect=zombie_refused)
def stop_and_resume(chaos: Chaos) -> None:
    """SIGSTOP the main process, or all processes, for longer than the lease, as on a machine that sleeps and
    wakes."""
    chaos.pause(0, 2)
    for _ in range(BLOWS):
        victim = chaos.busy_worker()
        # With only the main process stopped, its children continue; their requests wait in a pipe until it resumes.
        below = descendants(victim) if chaos.rng.random() < 0.3 else []
        if sleep_through_lease(chaos, victim, [victim.pid, *below]):
            break
    chaos.wait(lambda: chaos.lines(ZOMBIE), "the zombie's discovery")


def finish_refused(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the database refused the late result, and not the worker itself."""
    if not chaos.lines("lease lost, result refused"):
        return ["no finish was refused", *zombie_refused(chaos, counts)]
    return zombie_refused(chaos, counts)


def hook_sight(chaos: Chaos) -> None:
    """Stop the lease renewal of the first worker as soon as the hook is armed."""
    chaos.hook("worker", "worker-blind", 1.0, first=True)


@fault("worker-stop-resume-blind", prepare=hook_sight, expect=finish_refused)
def stop_and_resume_blind(chaos: Chaos) -> None:
    """SIGSTOP a worker that does not notice its lost leases: it stores its children's results long after the
    lease."""

    def victim_works() -> list[Role]:
        return [role for role in chaos.busy_workers() if chaos.deployment.place_of(role).number == 0]

    chaos.pause(0, 2)
    chaos.armed.touch()
    try:
        for _ in range(BLOWS):
            (victim,) = chaos.wait(victim_works, "the first worker's work")
            if sleep_through_lease(chaos, victim, [victim.pid]):
                break
        # Without this line, the counts and invariants show what happened instead.
        with contextlib.suppress(AssertionError):
            chaos.wait(lambda: chaos.lines("lease lost, result refused"), "the refusal", 120)
    finally:
        chaos.armed.unlink(missing_ok=True)


def no_second_claim(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that another process waited for the commit of the claim, and did not claim the same rows."""
    return [] if chaos.strikes else ["the hook did not strike"]


def hook_claim(chaos: Chaos) -> None:
    """Hook the workers' claims."""
    chaos.hook("worker", "worker-before-claim-commit", 0.5)


@fault("worker-stop-before-claim-commit", prepare=hook_claim, expect=no_second_claim)
def stop_before_claim_commits(chaos: Chaos) -> None:
    """Stop a worker between its claim and the commit, for longer than the lease and the redispatch time."""
    chaos.armed.touch()
    sleeping = chaos.wait(lambda: stopped(chaos), "a stop between claim and commit")
    chaos.mark()
    chaos.armed.unlink(missing_ok=True)
    chaos.pause(chaos.settings.lease_seconds + 1, chaos.settings.lease_seconds + 3)
    # Both workers may have been in a claim when the hook was armed.
    wake([*sleeping, *stopped(chaos)])


def stopped(chaos: Chaos) -> list[Role]:
    """The stopped workers."""
    return [role for role in chaos.workers if psutil.Process(role.pid).status() == psutil.STATUS_STOPPED]


def wake(sleeping: Iterable[Role]) -> None:
    """Resume stopped workers."""
    send([role.pid for role in sleeping], signal.SIGCONT)


def hook_pulse(chaos: Chaos) -> None:
    """Hook the workers' heartbeats."""
    chaos.hook("worker", "worker-before-heartbeat-commit", 1.0)


@fault("worker-stop-in-heartbeat", prepare=hook_pulse, expect=zombie_refused)
def stop_in_heartbeat(chaos: Chaos) -> None:
    """Stop a worker while it locks the rows of all its executions, until the database frees them and others claim
    them."""
    chaos.pause(0, 2)
    for _ in range(BLOWS):
        chaos.armed.touch()
        victim, *_ = chaos.wait(lambda: stopped(chaos), "a stop inside of a heartbeat")
        chaos.mark()
        chaos.armed.unlink(missing_ok=True)
        try:
            # Both may have been in a heartbeat when the hook was armed; a worker must be left for the work.
            chaos.pause(0.5, 1)
            wake(role for role in stopped(chaos) if role.pid != victim.pid)
            # The executions of the heartbeat may have ended before the worker stopped.
            if outlast(chaos, victim):
                break
        finally:
            wake([victim])
    chaos.wait(lambda: chaos.lines(ZOMBIE), "the zombie's discovery")


def hook_ears(chaos: Chaos) -> None:
    """Make the workers' consumers ignore messages as soon as the hook is armed."""
    chaos.hook("worker", "worker-deaf", 1.0)


def started_again(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that the watchdog ended a worker without messages, and that polling lost nothing before."""
    complaints = nothing_lost(chaos, counts)
    if not any(what == f"worker {EX_TEMPFAIL}" for what in chaos.deployment.exits):
        complaints.append(f"no worker ended itself: {dict(chaos.deployment.exits)}")
    return complaints


@fault(
    "celery-deaf",
    brokers=("redis", "rabbitmq"),
    settings={"claim_seconds": 0.5, "stall_seconds": 3.0},
    prepare=hook_ears,
    expect=started_again,
)
def deaf(chaos: Chaos) -> None:
    """Let every worker live without messages: it claims by polling, then ends, and the supervisor restarts it."""
    chaos.armed.touch()
    chaos.mark()
    chaos.wait(lambda: chaos.strikes, "a message that is not heard")
    number = 0

    def ended() -> bool:
        nonlocal number
        number += 1
        # The watchdog needs a few executions without a message, over some time.
        row = chaos.client.executions.start("tick", {"at": str(number)}, idempotency_key=f"tick-{number}")
        chaos.given.executions.append(row["id"])
        time.sleep(0.2)
        return any(what.startswith("worker") for what in chaos.deployment.exits)

    try:
        chaos.wait(ended, "the end of a deaf worker")
    finally:
        chaos.armed.unlink(missing_ok=True)


HUNGRY = """
def hungry(order: int) -> int:
    NOTE
    note("begin")
    kept = []
    while True:
        kept.append(bytearray(8_000_000))
"""

SUICIDAL = """
def suicidal(order: int) -> int:
    NOTE
    note("begin")
    os._exit(1)
"""


def prepare_hunger(chaos: Chaos) -> None:
    """Prepare orders, and two functions that never finish."""
    ORDERS.prepare(chaos)
    workload.save(
        chaos,
        HUNGRY,
        limits={"memory_bytes": 134_217_728, "retries": 2, "retry_delay": 0.2, "max_attempts": 3},
    )
    workload.save(chaos, SUICIDAL, limits={"max_attempts": 3, "retry_delay": 0.2})


def give_hunger(chaos: Chaos, number: int) -> None:
    """Give the work: every fifth piece allocates until it is killed, and another fifth exits without a result."""
    if number % 5 < 3:
        ORDERS.give(chaos, number)
        return
    row = chaos.client.executions.start(
        "hungry" if number % 5 == 3 else "suicidal", {"order": number}, idempotency_key=f"piece-{number}"
    )
    chaos.given.executions.append(row["id"])


def exact_attempts(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that these functions end after exactly their attempts, and that no worker ends with them."""
    complaints = []
    with chaos.database.read() as tx:
        rows = tx.rows(
            sa.select(execution.c.function, execution.c.state, execution.c.attempt, execution.c.id)
        )
    for row in rows:
        ends = {"hungry": ("failed", 3), "suicidal": ("dead", 3)}.get(row["function"])
        if ends is None and row["state"] != "succeeded":
            complaints.append(f"{row['function']} {row['id']} is {row['state']}")
        elif ends is not None and (row["state"], row["attempt"]) != ends:
            complaints.append(
                f"{row['function']} is {row['state']} after {row['attempt']} attempts, not {ends}"
            )
    if chaos.deployment.exits:
        complaints.append(f"a role ended: {dict(chaos.deployment.exits)}")
    return complaints


@fault(
    "worker-oom",
    workload=Workload(prepare_hunger, give_hunger, matches=ORDERS.matches, halt=ORDERS.halt),
    expect=exact_attempts,
    failing=True,
)
def oom(chaos: Chaos) -> None:
    """Run functions that allocate memory until they are killed, in every attempt."""
    chaos.mark()
