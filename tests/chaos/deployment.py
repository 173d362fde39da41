"""A deployment to be harmed: servers, a fresh database and namespace, two of every role, and who starts them again.

    with Servers() as servers, servers.lend("redis", own=()) as lent:
        deployment = Deployment(folder, lent, {"router": 2, "worker": 2}, settings={…})

A process that ends without having been asked to is started again, as systemd or Kubernetes would: one place is one
unit there, and each process in it one incarnation.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.services.missing_servers import require
from tests.services.port import free_port
from tests.services.postgres import Postgres
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis
from tests.support.processes import SCRIPTS, Role, Roles

ROOT = Path(__file__).resolve().parents[2]

BROKERS = ("redis", "rabbitmq", "none")

# Short, so that what waits for them is seen within a run; as far apart from each other as the defaults are.
SETTINGS: Mapping[str, Any] = {
    "lease_seconds": 4.0,
    "heartbeat_seconds": 1.0,
    "redispatch_seconds": 3.0,
    "grace_seconds": 5.0,
}
# The workload's functions write a line at their beginning and end.
ENVIRONMENT: Mapping[str, str] = {"FUNCTORY_AUTHOR_GRANTS": '["secret", "host", "permission", "write"]'}

# What each role is started with.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "worker": ("--slots", "2"),
    "dev": ("--port", "0", "--quiet"),
}
LAYOUT: Mapping[str, int] = {"router": 2, "scheduler": 2, "worker": 2}

# What a role prints when it works.
READY = (" ready  ", "Ready in ")

# How long a role may take to be ready: a machine that does other things too is slow, not broken.
READY_SECONDS = 240.0
# A supervisor's pause before it starts a process again (systemd: RestartSec), and the longest one.
PAUSE_SECONDS = 0.2
LONGEST_PAUSE = 3.0


@dataclass(frozen=True)
class Lent:
    """The servers of one run. ``broker`` is None without one."""

    postgres: Postgres
    broker: Redis | RabbitMQ | None
    broker_name: str
    broker_url: str


class Servers:
    """The servers of many runs: started when first needed, shared by the runs that do not harm them.

    ``known`` gives running servers by their names, where somebody has them already.
    """

    def __init__(self, known: Callable[[str], Any] | None = None) -> None:
        self._known = known
        self._shared: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def lend(self, broker: str, harms: Sequence[str] = ()) -> Iterator[Lent]:
        """Servers for a run with this broker; those in ``harms`` (``postgres``, ``broker``) are its own."""
        with contextlib.ExitStack() as own:
            postgres: Postgres = self._one("postgres", own if "postgres" in harms else None)
            if broker == "none":
                yield Lent(postgres, None, broker, "none://")
                return
            server = self._one(broker, own if "broker" in harms else None)
            with self._lock:
                url = (
                    server.empty_database() if broker == "redis" else own.enter_context(server.virtual_host())
                )
            yield Lent(postgres, server, broker, url)

    def _one(self, name: str, own: contextlib.ExitStack | None) -> Any:
        kind = {"postgres": Postgres, "redis": Redis, "rabbitmq": RabbitMQ}[name]
        if own is None and self._known is not None:
            return self._known(name).start()
        if own is not None:
            return own.enter_context(kind(require(name).programs))
        with self._lock:
            if name not in self._shared:
                self._shared[name] = self._stack.enter_context(kind(require(name).programs))
            return self._shared[name]


@dataclass
class Place:
    """Where one process of a role stands, and the one that stands there now."""

    role: str
    arguments: tuple[str, ...]
    number: int
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    # Instead of the console script: what runs the role, given the incarnation's number.
    command: tuple[str, ...] = ()
    incarnation: int = 0
    process: Role | None = None
    wanted: bool = False
    pause: float = PAUSE_SECONDS
    due: float = 0.0

    @property
    def ready(self) -> bool:
        """Whether the process that stands there has said that it is ready."""
        return self.process is not None and any(word in line for line in self.process.lines for word in READY)

    @property
    def alive(self) -> bool:
        """Whether a process stands there and runs (or is stopped: it is not dead)."""
        return self.process is not None and self.process.process.poll() is None


class Deployment:
    """The processes of one run and their supervisor; leaving the block kills all that is left."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        broker_url: str,
        layout: Mapping[str, int] = LAYOUT,
        settings: Mapping[str, Any] = {},
        environment: Mapping[str, str] = {},
        arguments: Mapping[str, tuple[str, ...]] = {},
    ) -> None:
        self.roles = Roles(
            folder,
            **({"database_url": database_url, "broker_url": broker_url} | dict(SETTINGS) | dict(settings)),
        )
        options = {**ARGUMENTS, **arguments}
        self.places = [
            Place(role, options.get(role, ()), number, environment={**ENVIRONMENT, **environment})
            for role, count in layout.items()
            for number in range(count)
        ]
        for place in self.places:
            if place.role == "server":
                # Senders must find it again after a restart.
                place.settings["port"] = free_port()
        self.exits: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="chaos-supervisor", daemon=True)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self.roles.__exit__(None, None, None)

    def start(self) -> None:
        """Start every place and return when all are ready; from then on those that end are started again."""
        for place in self.places:
            place.wanted = True
            self._spawn(place)
        for place in self.places:
            assert place.process is not None
            place.process.wait_ready(READY_SECONDS)
        self._thread.start()

    def of(self, role: str) -> list[Role]:
        """The processes of a role that live now."""
        with self._lock:
            return [p.process for p in self.places if p.role == role and p.alive and p.process is not None]

    def place_of(self, process: Role) -> Place:
        """Where a process stands."""
        return next(place for place in self.places if place.process is process)

    def hold(self, process: Role) -> Place:
        """Do not start it again when it ends, until :meth:`release`."""
        with self._lock:
            place = self.place_of(process)
            place.wanted = False
            return place

    def release(self, place: Place) -> None:
        """Let somebody stand there again."""
        with self._lock:
            place.wanted = True

    def restart(self, process: Role) -> Role:
        """End it in order and start the next one in its place; returns that, ready."""
        place = self.hold(process)
        process.stop(READY_SECONDS)
        with self._lock:
            self._spawn(place)
            place.wanted = True
        assert place.process is not None
        return place.process.wait_ready(READY_SECONDS)

    def stop(self, roles: Collection[str] | None = None) -> list[str]:
        """End every process of ``roles`` (None: of all) by SIGTERM. Returns what was wrong with their ends."""
        with self._lock:
            wanted = [place for place in self.places if roles is None or place.role in roles]
            for place in wanted:
                place.wanted = False
            living = [place for place in wanted if place.alive]
        for place in living:
            assert place.process is not None
            with contextlib.suppress(ProcessLookupError):
                place.process.signal(signal.SIGCONT)
                place.process.signal(signal.SIGTERM)
        complaints = []
        for place in living:
            assert place.process is not None
            try:
                code = place.process.process.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                # Its stacks go to the output that is kept.
                place.process.signal(signal.SIGUSR1)
                place.process.wait_for(r"Current thread|most recent call first", READY_SECONDS)
                complaints.append(f"{place.role} {place.number} did not end on SIGTERM")
                continue
            # One that was just started again has not heard of its signals yet.
            if code != 0 and place.ready:
                complaints.append(f"{place.role} {place.number} ended with {code} on SIGTERM")
        return complaints

    @property
    def output(self) -> list[tuple[str, str]]:
        """The lines of every process so far, each with who printed it."""
        return [
            (f"{role.name}[{role.pid}]", line)
            for role in list(self.roles.started)
            for line in list(role.lines)
        ]

    def _spawn(self, place: Place) -> None:
        place.incarnation += 1
        script = place.command or (str(SCRIPTS / "functory"),)
        words = [word.replace("{incarnation}", str(place.incarnation)) for word in script]
        environment = {"PYTHONPATH": str(ROOT)} | place.environment if place.command else place.environment
        place.process = self.roles.spawn(
            [
                "/usr/bin/env",
                *(f"{k}={v}" for k, v in environment.items()),
                *words,
                place.role,
                *place.arguments,
            ],
            name=f"{place.role}-{place.number}.{place.incarnation}",
            **place.settings,
        )

    def _supervise(self) -> None:
        while not self._closing.wait(0.05):
            now = time.monotonic()
            with self._lock:
                for place in self.places:
                    if not place.wanted or place.alive or place.process is None:
                        continue
                    if not place.due:
                        code = place.process.process.returncode
                        self.exits[f"{place.role} {code}"] += 1
                        # A process that ran for a while starts with a short pause again.
                        place.pause = PAUSE_SECONDS if place.ready else min(LONGEST_PAUSE, place.pause * 2)
                        place.due = now + place.pause
                    elif now >= place.due:
                        place.due = 0.0
                        self._spawn(place)


def descendants(process: Role) -> list[int]:
    """The processes below one, at whatever depth."""
    try:
        return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; one that is gone is passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_tree(process: Role) -> None:
    """SIGKILL a process and everything below it at once, as a control group that is killed."""
    # Stopped first, so that no process sees the others die and reacts.
    send([process.pid], signal.SIGSTOP)
    family = [process.pid, *descendants(process)]
    send(family, signal.SIGSTOP)
    send(family, signal.SIGKILL)
