"""Deployments: servers, the processes of the roles, a client, a subscriber and an observer."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.speed import cpu, profile, servers
from benchmarks.speed.counts import Counts, PostgresCounters, published
from benchmarks.speed.line_process import ROOT, LineProcess
from benchmarks.speed.marks import Marks
from benchmarks.speed.observer import Observer
from benchmarks.speed.options import Options
from tests.support.processes import Roles

NAMESPACE = "bench"


@dataclass
class Deployment:
    """One that runs. ``postgres`` and ``broker`` are None when it is embedded."""

    name: str
    options: Options
    folder: Path
    roles: Roles
    client: LineProcess
    observer: Observer
    postgres: servers.MeasuredPostgres | None = None
    broker: Any = None
    statistics: Any = None
    subscriber: LineProcess | None = None
    marks: Marks | None = None
    counters: PostgresCounters | None = None
    stopped: bool = False
    # Bursts go to this number of functions in turn; 0 for the one.
    functions: int = 0
    # Work that stays open on purpose, by the names of Lineage.open_work.
    left_open: dict[str, int] = field(default_factory=dict)

    @property
    def received(self) -> int:
        """Messages that the subscriber has got so far."""
        return int(self.marks.times[0]) if self.marks is not None else 0

    @property
    def last_received(self) -> float:
        """The time of the subscriber's last message."""
        return self.marks.times[1] if self.marks is not None else 0.0

    def cpu(self) -> dict[str, float]:
        """CPU so far in milliseconds, by process."""
        found: dict[str, float] = {"client": cpu.own_ms(self.client.pid)}
        sandbox = cpu.children_ms(self.client.pid)
        for role in self.roles.started:
            found[role.name] = found.get(role.name, 0.0) + cpu.own_ms(role.pid)
            sandbox += cpu.children_ms(role.pid)
        found["sandbox"] = sandbox
        if self.postgres is not None:
            found["postgresql"] = cpu.tree_ms(self.postgres.pid, without=[self.observer.backend()])
        if self.broker is not None:
            found["broker"] = cpu.tree_ms(self.broker.pid)
        if self.subscriber is not None:
            found["subscriber"] = cpu.tree_ms(self.subscriber.pid)
        return found

    def counts(self) -> Counts:
        """The counters of PostgreSQL; empty when embedded."""
        return self.counters.read() if self.counters is not None else Counts()

    def memory(self) -> dict[str, float]:
        """Memory in MiB by process, with its share of what it shares with others (PSS)."""
        found = {"client": _pss_mib(psutil.Process(self.client.pid))}
        sandbox = psutil.Process(self.client.pid).children(recursive=True)
        for role in self.roles.started:
            main = psutil.Process(role.pid)
            found[role.name] = found.get(role.name, 0.0) + _pss_mib(main)
            sandbox += main.children(recursive=True)
        found["sandbox"] = sum(map(_pss_mib, sandbox))
        return {name: round(mib, 1) for name, mib in found.items()}

    def published(self) -> int:
        """Messages on the broker so far, by its own counter."""
        return published(self.broker, self.roles.settings.broker) if self.broker is not None else 0

    def settle(self, messages: int, patience: float = 120.0) -> float:
        """Wait until no work is open, beside what was left open on purpose, and the subscriber has ``messages``. Return
        the time at which it was so.

        Raises RuntimeError with what is left when nothing changes for ``patience`` seconds.
        """
        since, before = time.monotonic(), ""
        while True:
            if self.subscriber is not None and self.received < messages:
                left = f"the subscriber has {self.received:,} of {messages:,} messages"
            else:
                open_ = self.observer.open_work()
                left = ", ".join(
                    f"{n:,} {name}" for name, n in open_.items() if n > self.left_open.get(name, 0)
                )
            if not left:
                return self.last_received or time.time()
            if left != before:
                since, before = time.monotonic(), left
            elif time.monotonic() - since > patience:
                raise RuntimeError(f"nothing changes any more: {left}\n{self.observer.open_work()}")
            time.sleep(0.01)

    def stop_roles(self) -> None:
        """End client and roles softly: at their end all their counters are reported."""
        if not self.stopped:
            self.client.close()
            for role in self.roles.started:
                role.stop()
            self.stopped = True


@contextlib.contextmanager
def start(name: str, options: Options) -> Iterator[Deployment]:
    """Start a deployment by its name. Raises LookupError where a server is not installed."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        if options.profile is not None:
            options.profile.mkdir(parents=True, exist_ok=True)
            os.environ[profile.VARIABLE] = str(options.profile.resolve())
            stack.callback(os.environ.pop, profile.VARIABLE)
        made = (_embedded if name == "embedded" else _on_servers)(name, options, folder, stack)
        made.client.ask("prepare", reuse=options.reuse)
        # Functions and triggers have events too, which belong to no load.
        made.settle(0)
        if made.subscriber is not None:
            time.sleep(0.5)
            made.subscriber.ask("report")
        yield made


def _embedded(name: str, options: Options, folder: Path, stack: contextlib.ExitStack) -> Deployment:
    roles = stack.enter_context(Roles(folder, worker_slots=options.slots))
    client = stack.enter_context(_client(roles, folder))
    observer = stack.enter_context(contextlib.closing(Observer(roles.settings.database, roles.settings)))
    return Deployment(name, options, folder, roles, client, observer)


def _on_servers(name: str, options: Options, folder: Path, stack: contextlib.ExitStack) -> Deployment:
    postgres = stack.enter_context(servers.MeasuredPostgres(options.folder, fsync=options.fsync))
    statistics = stack.enter_context(postgres.begin_counting())
    broker = stack.enter_context(servers.broker(name, options.folder))
    url = stack.enter_context(servers.broker_url(broker))
    database = stack.enter_context(postgres.database())
    roles = stack.enter_context(
        Roles(
            folder,
            by_exec=True,
            namespace=NAMESPACE,
            database_url=database,
            broker_url=url,
            worker_slots=options.slots,
            # It would check the rows of the load now and then; the benchmark checks them itself, after each round.
            verify_seconds=0,
            log_level="warning",
        )
    )
    roles.migrate()
    marks, subscriber = None, None
    if options.subscriber:
        path = folder / "subscriber.marks"
        marks = Marks(path, 2)
        environment = os.environ | {
            "BENCH_BROKER": url,
            "BENCH_NAMESPACE": NAMESPACE,
            "BENCH_MARKS": str(path),
        }
        subscriber = stack.enter_context(LineProcess("benchmarks.speed.subscriber", folder, environment))
    for command in (
        *[("router", "--scheduler") if options.together else ("router",)] * options.routers,
        *([] if options.together else [("scheduler",)]),
        *[("worker", "--slots", str(options.slots))] * options.workers,
    ):
        _start_role(roles, command, options)
    client = stack.enter_context(_client(roles, folder))
    observer = stack.enter_context(
        contextlib.closing(Observer(postgres.observer_url(database), roles.settings))
    )
    return Deployment(
        name,
        options,
        folder,
        roles,
        client,
        observer,
        postgres,
        broker,
        statistics,
        subscriber,
        marks,
        PostgresCounters(statistics, database),
    )


def _start_role(roles: Roles, command: tuple[str, ...], options: Options) -> None:
    if options.profile is None:
        roles.start(*command)
    else:
        roles.spawn(
            [sys.executable, "-m", "benchmarks.speed.profile", *command],
            name=command[0],
            wait=True,
            environment={"PYTHONPATH": str(ROOT), profile.VARIABLE: os.environ[profile.VARIABLE]},
        )


def _pss_mib(process: psutil.Process) -> float:
    try:
        return process.memory_full_info().pss / 2**20
    except psutil.Error:
        # A function's process lives for milliseconds.
        return 0.0


def _client(roles: Roles, folder: Path) -> LineProcess:
    return LineProcess("benchmarks.speed.client_process", folder, roles.environment)
