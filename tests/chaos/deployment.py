"""A deployment under test: servers, a new database and namespace, two processes of every role, and their supervisor.

    with Servers() as servers, servers.lend("redis", own=()) as lent:
        deployment = Deployment(folder, lent, {"router": 2, "worker": 2}, settings={…})

The supervisor restarts a process that ends by itself, as systemd or Kubernetes would. A place is one unit there, and
each process in it is one incarnation.
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

# Short times, so that their effects show within a run. They keep the proportions of the defaults.
SETTINGS: Mapping[str, Any] = {
    "lease_seconds": 4.0,
    "heartbeat_seconds": 1.0,
    "redispatch_seconds": 3.0,
    "grace_seconds": 5.0,
}
# The workload's functions write a line at their start and end.
ENVIRONMENT: Mapping[str, str] = {"FUNCTORY_AUTHOR_GRANTS": '["secret", "host", "permission", "write"]'}

# The arguments of each role.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "worker": ("--slots", "2"),
    "dev": ("--port", "0", "--quiet"),
}
LAYOUT: Mapping[str, int] = {"router": 2, "scheduler": 2, "worker": 2}

# The ready line of a role.
READY = (" ready  ", "Ready in ")

# The longest time until a role is ready: a busy machine is slow, not broken.
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

    ``known`` has running servers by name, for a caller that already started them.
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
        """Servers for a run with this broker. The run has its own of those in ``harms`` (``postgres``,
        ``broker``)."""
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
    """One place for a process of a role, with its current process."""

    role: str
    arguments: tuple[str, ...]
    number: int
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    # Returns the command that runs the role instead of the console script, for the incarnation's number.
    command: tuple[str, ...] = ()
    incarnation: int = 0
    process: Role | None = None
    wanted: bool = False
    pause: float = PAUSE_SECONDS
    due: float = 0.0

    @property
    def ready(self) -> bool:
        """True when the place's process has printed its ready line."""
        return self.process is not None and any(word in line for line in self.process.lines for word in READY)

    @property
    def alive(self) -> bool:
        """True when the place has a living process; a stopped one lives too."""
        return self.process is not None and self.process.process.poll() is None


class Deployment:
    """The processes of one run and their supervisor. Leaving the block kills all remaining processes."""

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
                # Senders must find the same address after a restart.
                place.settings["port"] = free_port()
        self.exits: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="chaos-supervisor", daemon=True)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill every process; none is started any more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self.roles.__exit__(None, None, None)

    def start(self) -> None:
        """Start every place, and return when all are ready. From then on the supervisor restarts processes that
        end."""
        for place in self.places:
            place.wanted = True
            with self._lock:
                self._spawn(place)
        for place in self.places:
            assert place.process is not None
            place.process.wait_ready(READY_SECONDS)
        self._thread.start()

    def of(self, role: str) -> list[Role]:
        """The living processes of a role."""
        with self._lock:
            return [p.process for p in self.places if p.role == role and p.alive and p.process is not None]

    def place_of(self, process: Role) -> Place:
        """The place of a process."""
        return next(place for place in self.places if place.process is process)

    def hold(self, process: Role) -> Place:
        """Do not restart the place's process until :meth:`release`."""
        with self._lock:
            place = self.place_of(process)
            place.wanted = False
            return place

    def release(self, place: Place) -> None:
        """Let the supervisor start a process at the place again."""
        with self._lock:
            place.wanted = True

    def restart(self, process: Role) -> Role:
        """Stop a process softly and start the next one in its place. Returns the new process, ready."""
        place = self.hold(process)
        process.stop(READY_SECONDS)
        with self._lock:
            self._spawn(place)
            place.wanted = True
        assert place.process is not None
        return place.process.wait_ready(READY_SECONDS)

    def stop(self, roles: Collection[str] | None = None) -> list[str]:
        """End every process of ``roles`` (None: of all) by SIGTERM. Returns complaints about their ends."""
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
                # Its stacks go to the stored output.
                place.process.signal(signal.SIGUSR1)
                place.process.wait_for(r"Current thread|most recent call first", READY_SECONDS)
                complaints.append(f"{place.role} {place.number} did not end on SIGTERM")
                continue
            # A process that was just restarted has no signal handlers yet.
            if code != 0 and place.ready:
                complaints.append(f"{place.role} {place.number} ended with {code} on SIGTERM")
        return complaints

    @property
    def output(self) -> list[tuple[str, str]]:
        """The lines of every process so far, each with the name of its process."""
        return [
            (f"{role.name}[{role.pid}]", line)
            for role in list(self.roles.started)
            for line in list(role.lines)
        ]

    def _spawn(self, place: Place) -> None:
        if self._closing.is_set():
            return
        place.incarnation += 1
        script = place.command or (str(SCRIPTS / "functory"),)
        words = [word.replace("{incarnation}", str(place.incarnation)) for word in script]
        environment = {"PYTHONPATH": str(ROOT)} | place.environment if place.command else place.environment
        place.process = self.roles.spawn(
            [*words, place.role, *place.arguments],
            name=f"{place.role}-{place.number}.{place.incarnation}",
            environment=environment,
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
    """All descendants of a process."""
    try:
        return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; processes that have ended are skipped."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_tree(process: Role) -> None:
    """SIGKILL a process and all its descendants at once, as the kill of a control group does."""
    # All are stopped first, so that no process reacts to the death of another.
    send([process.pid], signal.SIGSTOP)
    family = [process.pid, *descendants(process)]
    send(family, signal.SIGSTOP)
    send(family, signal.SIGKILL)
