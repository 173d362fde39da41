"""The definition of a fault: the harm to a working deployment, and the checks after it beyond the invariants.

The modules of ``tests.chaos.faults`` fill :data:`FAULTS`. A fault is a function of the :class:`Chaos` of its run:

    @fault("worker-kill9-main")
    def kill_main(chaos: Chaos) -> None:
        chaos.mark()
        chaos.rng.choice(chaos.workers).kill()
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.client.functory import Functory
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from tests.chaos.crash_hooks import SAID
from tests.chaos.deployment import BROKERS, LAYOUT, Deployment, Lent, descendants
from tests.chaos.workload import ORDERS, Given, Workload
from tests.services.faulty_proxy import FaultyProxy
from tests.services.pgbouncer import PgBouncer
from tests.services.postgres import Postgres
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis
from tests.support.patience import patient
from tests.support.processes import Role, Roles

if TYPE_CHECKING:
    from tests.chaos.outcome_counts import Counts

# The longest wait for a fact, in seconds.
PATIENCE_SECONDS = patient(300.0)


class Impossible(Exception):
    """This machine lacks what the fault needs; the run is skipped, and its line has the reason."""


class Stopped(Exception):
    """The run was asked to end before its end; it has no result."""


class Chaos:
    """One run, as a fault sees it: the deployment, its workload, and the seed's random number generator."""

    def __init__(
        self,
        fault: Fault,
        seed: int,
        n: int,
        folder: Path,
        lent: Lent,
        deployment: Deployment,
        stop: threading.Event,
    ) -> None:
        self.fault = fault
        self.seed = seed
        self.n = n
        self.folder = folder
        self.rng = random.Random(f"{fault.name}/{seed}")
        self.deployment = deployment
        self._stop = stop
        # Closed at the end of the run, before its servers.
        self.resources = contextlib.ExitStack()
        self.roles: Roles = deployment.roles
        self.postgres: Postgres = lent.postgres
        self.broker: Redis | RabbitMQ | None = lent.broker
        self.broker_name = lent.broker_name
        self.settings: Settings = deployment.roles.settings
        # The client only writes and reads: in embedded mode too, the engine runs in a process of its own.
        self.client = Functory(self.settings, author="chaos")
        self.database: Database = self.client.database
        self.given = Given()
        self.marks: list[datetime] = []
        # The proxies between the roles and their servers, by the names of :attr:`Fault.proxied`.
        self.proxies: Mapping[str, FaultyProxy] = {}
        # The pooler in front of the database, where the fault wants one.
        self.pooler: PgBouncer | None = None
        # Values that a fault passes from ``act`` to ``expect``.
        self.notes: dict[str, Any] = {}

    @property
    def workers(self) -> list[Role]:
        """The living worker processes."""
        return self.deployment.of("worker")

    @property
    def routers(self) -> list[Role]:
        """The living routers."""
        return self.deployment.of("router")

    @property
    def schedulers(self) -> list[Role]:
        """The living schedulers."""
        return self.deployment.of("scheduler")

    @property
    def servers(self) -> list[Role]:
        """The living HTTP servers."""
        return self.deployment.of("server")

    @property
    def watchers(self) -> list[Role]:
        """The living watchers."""
        return self.deployment.of("watcher")

    def restart(self, process: Role) -> Role:
        """Stop a process softly and start the next one in its place. Returns the new process, ready."""
        return self.deployment.restart(process)

    def busy_workers(self) -> list[Role]:
        """The workers with running executions."""
        rows = self.client.executions.list(state="running", limit=100)
        # A worker's name is its host, its process and a random word; of a prefork pool it is the child's.
        pids = {int(row["worker_id"].split(":")[-2]) for row in rows if row["worker_id"]}
        return [role for role in self.workers if pids & {role.pid, *descendants(role)}]

    def busy_worker(self) -> Role:
        """One of the workers with running executions."""
        return self.rng.choice(self.wait(self.busy_workers, "a worker that works"))

    def hook(self, role: str, hook: str, p: float, *, first: bool = False) -> None:
        """Run this role, or the ``first`` processes of it, with a hook of ``tests.chaos.crash_hooks``; for
        ``prepare``.

        The hook is not armed yet.
        """
        for place in self.deployment.places:
            if place.role == role and not (first and place.number):
                place.command = (
                    *(sys.executable, "-m", "tests.chaos.crash_hooks", hook, "--p", str(p)),
                    *("--seed", f"{self.seed}.{role}.{place.number}.{{incarnation}}"),
                    *("--armed", str(self.armed), "--"),
                )

    @property
    def armed(self) -> Path:
        """The file that arms the hooks while it exists."""
        return self.folder / "armed"

    @property
    def strikes(self) -> list[str]:
        """The lines that the hooks have printed at their strikes."""
        return self.lines(re.escape(SAID))

    def mark(self) -> None:
        """Record the time of the fault by the database's clock. Recovery is measured from this time."""
        self.marks.append(self.database.clock.now())

    def wait(self, fact: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait for the first true value of ``fact``, and return it. An unavailable database counts as no value.

        Raises :class:`Stopped` when the run is asked to end.
        """
        from functory.engine.errors import Unavailable

        deadline = time.monotonic() + seconds
        while True:
            try:
                found = fact()
            except Unavailable:
                found = None
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen in {seconds:g} s")
            if self._stop.wait(0.05):
                raise Stopped

    def pause(self, least: float, most: float) -> None:
        """Wait for a random time, so that the harm hits any point of the work."""
        if self._stop.wait(self.rng.uniform(least, most)):
            raise Stopped

    def lines(self, pattern: str) -> list[str]:
        """The lines of the roles that match ``pattern``."""
        found = re.compile(pattern)
        return [f"{who}: {line}" for who, line in self.deployment.output if found.search(line)]


def nothing(_chaos: Chaos) -> None:
    """Do nothing: no preparation, or no harm."""


def no_more(_chaos: Chaos, _counts: Counts) -> list[str]:
    """Expect nothing beyond the invariants and the counts."""
    return []


@dataclass(frozen=True, eq=False)
class Fault:
    """One way to harm a deployment. ``name`` is its name on the command line."""

    name: str
    # Called once the work runs; returns when the harm is over (the supervisor restarts killed processes).
    act: Callable[[Chaos], None]
    brokers: tuple[str, ...] = BROKERS
    # Settings of all roles, and of the harness.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Called before the roles start, when the database has its schema.
    prepare: Callable[[Chaos], None] = nothing
    # Complaints beyond the invariants, empty when all is well.
    expect: Callable[[Chaos, Counts], list[str]] = no_more
    workload: Workload = ORDERS
    # Servers that the run does not share: ``postgres``, ``broker``.
    harms: tuple[str, ...] = ()
    # Servers that the roles reach through a proxy: ``postgres``, ``broker``.
    proxied: tuple[str, ...] = ()
    # The roles reach the database through pgbouncer in transaction mode.
    pooled: bool = False
    # The number of processes of each role.
    layout: Mapping[str, int] = field(default_factory=lambda: dict(LAYOUT))
    # Options of roles instead of the usual ones.
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Environment variables of the roles.
    environment: Mapping[str, str] = field(default_factory=dict)
    # A SQLite file in the run's folder and the in-memory broker; the layout is ``{"dev": 1}``, the broker "none".
    embedded: bool = False
    # Acknowledged work may be missing afterwards.
    forgets: bool = False
    # Events need not reach the broker, because it never comes back.
    unpublished: bool = False
    # Celery reports the harm with tracebacks.
    traces: bool = False
    # The workload makes executions end in other states than succeeded.
    failing: bool = False


FAULTS: dict[str, Fault] = {}


def add(*faults: Fault) -> None:
    """Register faults under their names."""
    for one in faults:
        if one.name in FAULTS:
            raise ValueError(f"there are two faults {one.name}")
        FAULTS[one.name] = one


def fault(name: str, **fields: Any) -> Callable[[Callable[[Chaos], None]], Callable[[Chaos], None]]:
    """Decorator: register a function of the run as the fault ``name``."""

    def register(act: Callable[[Chaos], None]) -> Callable[[Chaos], None]:
        add(Fault(name, act, **fields))
        return act

    return register


def named(names: Sequence[str]) -> list[Fault]:
    """The faults of these names (``all``: every one). Raises :class:`SystemExit` for an unknown one."""
    import tests.chaos.faults as faults

    faults.load()
    if "all" in names:
        return list(FAULTS.values())
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise SystemExit(
            f"error: there is no fault {unknown[0]!r}\n  the faults are: all, {', '.join(sorted(FAULTS))}"
        )
    return [FAULTS[name] for name in names]
