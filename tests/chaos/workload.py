"""The workload of a run: functions with outside effects, the events and calls that start them, and a record of both.

:data:`ORDERS` contains every way to start an execution: events with a second trigger behind them, direct starts,
parents with a child, and a schedule. Every function writes a line to a file at its start and its end, with its
execution and attempt. A retry repeats these lines, and they show from outside which attempts ran.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.engine.errors import Unavailable
from tests.support.patience import patient

if TYPE_CHECKING:
    from tests.chaos.fault import Chaos

# Seconds between two pieces of work: long enough that pieces still arrive during the harm.
INTERVAL_SECONDS = 0.2

# Every kill of a run may lose an attempt of one execution, and the execution must still succeed.
MAX_ATTEMPTS = 30

NOTE = """
    import os, time
    from functory import execution

    def note(what):
        line = f"{execution.id} {execution.attempt} {what}\\n"
        file = os.open(EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(file, line.encode())
        os.close(file)
"""

SOURCES = (
    """
def work(order: int) -> int:
    NOTE
    note("begin")
    time.sleep(1.0)
    note("end")
    return order
""",
    """
def take(order: int) -> int:
    NOTE
    from functory import emit
    note("begin")
    time.sleep(1.0)
    emit("order.taken", {"order": order})
    note("end")
    return order
""",
    """
def ship(order: int) -> int:
    NOTE
    note("begin")
    time.sleep(0.5)
    note("end")
    return order
""",
    """
def parent(order: int) -> int:
    NOTE
    from functory import call
    note("begin")
    time.sleep(0.3)
    found = call("child", order)
    note("end")
    return found
""",
    """
def child(order: int) -> int:
    NOTE
    note("begin")
    time.sleep(0.5)
    note("end")
    return order * 2
""",
    """
def tick(at: str) -> str:
    NOTE
    note("begin")
    return at
""",
)


@dataclass
class Given:
    """The acknowledged work: ids of started executions and of written events."""

    executions: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    complete: threading.Event = field(default_factory=threading.Event)
    problem: BaseException | None = None


@dataclass(frozen=True)
class Workload:
    """A workload: ``prepare`` saves functions, triggers and schedules; ``give`` starts piece number i of the work."""

    prepare: Callable[[Chaos], None]
    give: Callable[[Chaos, int], None]
    # The functions that must run once each for every event of a type.
    matches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The sources that must stop before the work can end.
    halt: Callable[[Chaos], None] = lambda chaos: None


def effects(chaos: Chaos) -> Path:
    """The file that the functions write to."""
    return chaos.folder / "effects" / "lines"


def save(chaos: Chaos, source: str, **declared: Any) -> None:
    """Save a function's source; ``NOTE`` in it is replaced by the definition of ``note(what)``."""
    path = effects(chaos)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    # Where the sandbox has its own users, functions run as another user.
    for part, mode in ((chaos.folder, 0o755), (path.parent, 0o777), (path, 0o666)):
        part.chmod(mode)
    note = NOTE.replace("EFFECTS", repr(str(path))).strip()
    options: dict[str, Any] = {"limits": {"max_attempts": MAX_ATTEMPTS, "retry_delay": 0.2}} | declared
    chaos.client.functions.save(
        source.lstrip().replace("NOTE", note), author="chaos", files={"write": [str(path)]}, **options
    )


def prepare(chaos: Chaos) -> None:
    """Save the functions, triggers and schedule of orders."""
    for source in SOURCES:
        save(chaos, source)
    for name, type_, function in (("take", "order.placed", "take"), ("ship", "order.taken", "ship")):
        chaos.client.register_trigger(
            name, on={"type": [type_]}, function=function, input={"order": "{{ event.data.order }}"}
        )
    chaos.client.schedules.save(
        "beat", every="2s", function="tick", input={"at": "{{ event.time }}"}, overlap="allow_all"
    )


def give(chaos: Chaos, number: int) -> None:
    """Give one piece: of four pieces two are events, one is an execution and one is a parent."""
    key = f"piece-{number}"
    if number % 4 < 2:
        chaos.given.events.append(chaos.client.events.emit("order.placed", {"order": number}, dedup_key=key))
        return
    function = "work" if number % 4 == 2 else "parent"
    row = chaos.client.executions.start(function, {"order": number}, idempotency_key=key)
    chaos.given.executions.append(row["id"])


def halt(chaos: Chaos) -> None:
    """Stop the schedule."""
    chaos.client.schedules.pause("beat", note="the run ends")


ORDERS = Workload(prepare, give, matches={"order.placed": ("take",), "order.taken": ("ship",)}, halt=halt)


@contextlib.contextmanager
def feeding(chaos: Chaos) -> Iterator[None]:
    """Give all pieces in a thread. Each is repeated until the database accepts it; ``given.complete`` is set at the
    end."""
    stop = threading.Event()

    def feed() -> None:
        try:
            for number in range(chaos.n):
                while not stop.is_set():
                    try:
                        chaos.fault.workload.give(chaos, number)
                        break
                    except Unavailable:
                        stop.wait(0.2)
                if stop.wait(INTERVAL_SECONDS):
                    return
        except BaseException as error:
            chaos.given.problem = error
        finally:
            chaos.given.complete.set()

    thread = threading.Thread(target=feed, name="chaos-feeder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(patient(30))


def settled(chaos: Chaos) -> bool:
    """True when no work is open any more."""
    open_ = chaos.client.lineage.open_work()
    if chaos.fault.unpublished:
        open_.pop("unpublished events", None)
    return not any(open_.values())


def lines(chaos: Chaos) -> list[tuple[str, int, str]]:
    """The lines that the functions wrote: execution, attempt, what."""
    found = []
    for line in effects(chaos).read_text().splitlines() if effects(chaos).exists() else []:
        execution, attempt, what = line.split(" ", 2)
        found.append((execution, int(attempt), what))
    return found
