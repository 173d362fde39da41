"""Makes one run: a deployment, its work, one fault, and the result as one line.

The order is always the same: functions and triggers, roles, work, the harm in the middle of it, idleness, a soft
stop, counts and invariants. Times are measured and never checked: a busy machine is slow, not wrong.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import worker
from functory.engine.executions import worker_registry
from functory.engine.maintenance.invariants import verify
from tests.chaos import workload
from tests.chaos.deployment import ROOT, SETTINGS, Deployment, Servers
from tests.chaos.fault import PATIENCE_SECONDS, Chaos, Fault, Impossible, Stopped
from tests.chaos.outcome_counts import Counts, count
from tests.services.faulty_proxy import FaultyProxy
from tests.services.missing_servers import require
from tests.services.pgbouncer import PgBouncer
from tests.support.processes import Roles

# The end of a run waits until no process writes a further event, which would stay unrouted.
LAST = ("router", "worker", "dev")

# Alembic's context is global in the process.
_migrating = threading.Lock()


def run(
    fault: Fault,
    broker: str,
    seed: int,
    servers: Servers,
    *,
    n: int = 20,
    max_seconds: float = PATIENCE_SECONDS,
    commit: str = "",
    stop: threading.Event | None = None,
) -> dict[str, Any]:
    """Make the run. Returns the line; its ``violations`` and ``complaints`` are empty when all is well.

    ``max_seconds`` is the longest time until the deployment is idle after the harm. After a complaint the run's
    folder stays, with all output of the roles, and the line names it. ``stop`` ends the run early: its processes are
    killed. Raises :class:`Stopped` then.
    """
    stop = stop or threading.Event()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{fault.name}-")).resolve()
    line: dict[str, Any] = {
        "seed": seed,
        "broker": broker,
        "fault": fault.name,
        "n": n,
        "config": {"roles": dict(fault.layout)} | dict(SETTINGS) | dict(fault.settings),
    }
    counts, violations, complaints, restarts = Counts(), [], [], {}
    output: list[tuple[str, str]] = []
    with contextlib.ExitStack() as stack:
        try:
            chaos = _deployed(stack, fault, broker, seed, n, folder, servers, stop)
            try:
                complaints += _lived(chaos, max_seconds)
                counts = count(chaos)
                complaints += _judged(chaos, counts)
                violations = _verified(chaos)
            finally:
                output = chaos.deployment.output
                restarts = dict(chaos.deployment.exits)
        except Impossible as reason:
            line["skipped"] = str(reason)
        except Exception as error:
            complaints.append(f"{type(error).__name__}: {error}".split("\n")[0])
            (folder / "error.txt").write_text(traceback.format_exc())
    if stop.is_set():
        shutil.rmtree(folder, ignore_errors=True)
        raise Stopped
    line |= {
        "attempted": counts.attempted,
        "executed": counts.executed,
        "lost": counts.lost,
        "doubled": counts.doubled,
        "effects_repeated": counts.effects_repeated,
        "attempts_lost": counts.attempts_lost,
        "attempts_crashed": counts.attempts_crashed,
        "released": counts.released,
        "zombies_rejected": counts.zombies_rejected,
        "recovery_seconds": counts.recovery_seconds,
        "longest_pause_seconds": counts.longest_pause,
        "states": dict(counts.states),
        "restarts": restarts,
        "seconds": round(time.monotonic() - begun, 1),
        "violations": violations,
        "complaints": complaints,
        "commit": commit,
    }
    if violations or complaints:
        (folder / "output.txt").write_text("\n".join(f"{who} {text}" for who, text in output) + "\n")
        line["folder"] = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return line


def commit() -> str:
    """The tested commit, with a mark when the work tree differs from it; empty outside of a repository."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip()


def _deployed(
    stack: contextlib.ExitStack,
    fault: Fault,
    broker: str,
    seed: int,
    n: int,
    folder: Path,
    servers: Servers,
    stop: threading.Event,
) -> Chaos:
    lent = stack.enter_context(servers.lend(broker, fault.harms))
    if fault.embedded:
        database_url, broker_url = f"sqlite:///{folder}/functory.db", "memory://"
    else:
        database_url, broker_url = stack.enter_context(lent.postgres.database()), lent.broker_url
    # Past poolers and proxies: a migration needs a session.
    own = Roles(folder, database_url=database_url, broker_url=broker_url)
    pooler: PgBouncer | None = None
    if fault.pooled:
        pooler = stack.enter_context(PgBouncer(require("pgbouncer").programs, lent.postgres.port))
        database_url = pooler.through(database_url)
    proxies = {
        name: stack.enter_context(FaultyProxy({"postgres": database_url, "broker": broker_url}[name]))
        for name in fault.proxied
    }
    database_url, broker_url = (
        proxies[name].url if name in proxies else url
        for name, url in (("postgres", database_url), ("broker", broker_url))
    )
    deployment = stack.enter_context(
        Deployment(
            folder, database_url, broker_url, fault.layout, fault.settings, fault.environment, fault.arguments
        )
    )
    with _migrating:
        own.migrate()
    chaos = Chaos(fault, seed, n, folder, lent, deployment, stop)
    chaos.proxies, chaos.pooler = proxies, pooler
    stack.push(chaos.resources)
    stack.enter_context(_killed_at(stop, chaos))
    stack.callback(chaos.client.close)
    fault.workload.prepare(chaos)
    fault.prepare(chaos)
    return chaos


@contextlib.contextmanager
def _killed_at(stop: threading.Event, chaos: Chaos) -> Iterator[None]:
    """Kill the deployment once ``stop`` is set inside the block: what waits for one of its processes, or for an answer
    of the database, then fails.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if stop.is_set():
                chaos.deployment.kill()
                chaos.database.give_up()
                return

    watcher = threading.Thread(target=watch, name="chaos-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _lived(chaos: Chaos, max_seconds: float) -> list[str]:
    """Run the work and the harm, wait until all is idle, and stop. Returns complaints about the end."""
    complaints: list[str] = []
    chaos.deployment.start()
    with workload.feeding(chaos):
        chaos.wait(lambda: chaos.client.executions.list(state="running", limit=1), "the first execution")
        chaos.fault.act(chaos)
        chaos.wait(chaos.given.complete.is_set, "the giving of the work")
    if chaos.given.problem is not None:
        raise chaos.given.problem
    chaos.wait(lambda: _halted(chaos), "the halt of the schedules")
    try:
        chaos.wait(lambda: workload.settled(chaos), "rest", max_seconds)
        if chaos.fault.embedded:
            chaos.wait(lambda: _no_dead_workers(chaos), "the farewell of the dead workers")
        else:
            complaints += chaos.deployment.stop([r for r in chaos.fault.layout if r not in LAST])
        chaos.wait(lambda: workload.settled(chaos), "rest", max_seconds)
    except AssertionError as error:
        open_ = {what: number for what, number in chaos.client.lineage.open_work().items() if number}
        complaints.append(f"{error}: {open_}")
    return complaints + chaos.deployment.stop()


def _halted(chaos: Chaos) -> bool:
    chaos.fault.workload.halt(chaos)
    return True


def _no_dead_workers(chaos: Chaos) -> bool:
    """True when no killed worker is registered: its event comes some leases later, and must be routed too."""
    with chaos.database.read() as tx:
        known = tx.scalar(sa.select(sa.func.count()).select_from(worker))
    alive = worker_registry.alive(chaos.database, chaos.settings.lease_seconds)
    return known == len(alive) and workload.settled(chaos)


def _judged(chaos: Chaos, counts: Counts) -> list[str]:
    """The complaints about the counts of the run, and those of the fault's own checks."""
    complaints = []
    lost = counts.lost - (counts.forgotten if chaos.fault.forgets else 0)
    if lost:
        complaints.append(f"{lost} lost: {'; '.join(counts.problems[:3])}")
    if counts.doubled:
        complaints.append(f"{counts.doubled} doubled: {'; '.join(counts.problems[:3])}")
    others = {state: number for state, number in counts.states.items() if state != "succeeded"}
    if others and not chaos.fault.failing and not lost:
        complaints.append(f"not all succeeded: {others}")
    # Celery prints a traceback for a failed acknowledgement to an unavailable broker, and for a killed child.
    traces_expected = chaos.fault.traces or "broker" in chaos.fault.harms
    python = "" if traces_expected else "^Traceback|"
    traces = chaos.lines(rf"{python}round failed|could not be carried out")
    if traces:
        complaints.append(f"{len(traces)} tracebacks in the output, the first: {traces[0]}")
    return complaints + chaos.fault.expect(chaos, counts)


def _verified(chaos: Chaos) -> list[str]:
    found = verify(chaos.database, chaos.settings, patience=0)
    return [
        f"{one.code} {one.title}: {one.count}: {'; '.join(one.examples[:2])}" for one in found if one.count
    ]
