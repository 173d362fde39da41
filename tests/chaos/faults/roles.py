"""Faults of the other roles: they are killed at random, or die repeatedly at the worst point of their
transactions."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import event
from functory.engine.errors import Unavailable
from tests.chaos import workload
from tests.chaos.deployment import LAYOUT, kill_tree
from tests.chaos.fault import Chaos, Fault, add, fault
from tests.chaos.outcome_counts import Counts
from tests.chaos.workload import ORDERS, Workload
from tests.support.patience import patient

# The wanted number of strikes: fewer show little, and more only take time.
STRIKES = 4


def kill_at_random(chaos: Chaos, role: str, times: int = 4) -> None:
    """SIGKILL a random process of the role, several times, while the work continues."""
    for _ in range(times):
        chaos.pause(0.2, 1.5)
        victim = chaos.rng.choice(chaos.wait(lambda: chaos.deployment.of(role), f"a {role} that lives"))
        chaos.mark()
        victim.kill()


@fault("router-kill")
def kill_router(chaos: Chaos) -> None:
    """Kill routers at random times."""
    kill_at_random(chaos, "router")


@fault("scheduler-kill")
def kill_scheduler(chaos: Chaos) -> None:
    """Kill schedulers at random times: in their ticks, their dispatches and their reaping."""
    kill_at_random(chaos, "scheduler")


def hooked(role: str, hook: str, p: float) -> Callable[[Chaos], None]:
    """Return a ``prepare`` that runs the role with a hook."""

    def prepare(chaos: Chaos) -> None:
        chaos.hook(role, hook, p)

    return prepare


def dying(chaos: Chaos) -> None:
    """Arm the hook until it has struck often enough, or all work is done."""
    chaos.armed.touch()
    chaos.mark()

    def enough() -> bool:
        return len(chaos.strikes) >= STRIKES or (chaos.given.complete.is_set() and _idle(chaos))

    try:
        chaos.wait(enough, f"{STRIKES} deaths, or the end of the work")
    finally:
        chaos.armed.unlink(missing_ok=True)


def _idle(chaos: Chaos) -> bool:
    open_ = chaos.client.lineage.open_work()
    return not any(open_.values())


def struck(chaos: Chaos, _counts: Counts) -> list[str]:
    """Check that the hook struck: a hook that never struck proves nothing."""
    return [] if chaos.strikes else ["the hook did not strike"]


def dying_reaper(chaos: Chaos) -> None:
    """Kill a worker, so that there are attempts to reap; then let reapers die before they commit."""
    chaos.armed.touch()
    chaos.pause(0, 1)
    victim = chaos.busy_worker()
    chaos.mark()
    kill_tree(victim)
    try:
        # Each incarnation waits for one lease before it reaps, so two deaths take some time.
        chaos.wait(lambda: len(chaos.strikes) >= 2, "two reapers that die")
    finally:
        chaos.armed.unlink(missing_ok=True)


add(
    Fault(
        "router-kill-before-commit",
        dying,
        prepare=hooked("router", "router-before-commit", 0.5),
        expect=struck,
    ),
    Fault(
        "dispatcher-kill-after-publish",
        dying,
        brokers=("redis", "rabbitmq"),
        prepare=lambda chaos: _both(chaos, "dispatcher-after-publish"),
        expect=struck,
    ),
    Fault(
        "dispatcher-kill-before-publish",
        dying,
        brokers=("redis", "rabbitmq"),
        prepare=lambda chaos: _both(chaos, "dispatcher-before-publish"),
        expect=struck,
    ),
    Fault(
        "dispatcher-kill-before-commit",
        dying,
        brokers=("redis", "rabbitmq"),
        prepare=lambda chaos: _both(chaos, "dispatcher-before-commit"),
        expect=struck,
    ),
    Fault(
        "ticker-kill-before-commit",
        dying,
        prepare=hooked("scheduler", "ticker-before-commit", 0.5),
        expect=struck,
    ),
    Fault(
        "reaper-kill", dying_reaper, prepare=hooked("scheduler", "reaper-before-commit", 1.0), expect=struck
    ),
)


def _both(chaos: Chaos, hook: str) -> None:
    """Run routers and schedulers with the hook: both dispatch."""
    for role in ("router", "scheduler"):
        chaos.hook(role, hook, 0.3)


# On an unreachable server, a missing answer or a broken connection the sender tries again, with the same id.
_AWAY = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def send(chaos: Chaos, number: int) -> None:
    """Send a CloudEvent to any server that takes it; raises :class:`Unavailable` when none does."""
    body: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"piece-{number}",
        "source": "/chaos",
        "type": "order.placed",
        "data": {"order": number},
    }
    ports = [place.settings["port"] for place in chaos.deployment.places if place.role == "server"]
    chaos.rng.shuffle(ports)
    for port in ports:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/events",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/cloudevents+json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=patient(10)) as answer:
                chaos.given.events.append(json.load(answer)["event"])
                return
        except _AWAY:
            continue
    raise Unavailable("no server takes the event", "none answers", "it is sent again")


SENT = Workload(ORDERS.prepare, send, matches=ORDERS.matches, halt=ORDERS.halt)


def taken_once(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that an event is stored once, even when it was sent again because a killed server did not answer."""
    with chaos.database.read() as tx:
        numbers = [
            row["data"]["order"]
            for row in tx.rows(sa.select(event.c.data).where(event.c.type == "order.placed"))
        ]
    if sorted(numbers) != list(range(chaos.n)):
        return [f"{len(numbers)} events were taken of {chaos.n} that were sent"]
    return []


@fault("server-kill", workload=SENT, layout={**LAYOUT, "server": 2}, expect=taken_once)
def kill_server(chaos: Chaos) -> None:
    """Kill HTTP servers at random times, while they receive events."""
    kill_at_random(chaos, "server")


SEEN = """
def seen(path: str) -> str:
    NOTE
    note("begin")
    note("end")
    return path
"""


def _inbox(chaos: Chaos) -> Path:
    return chaos.folder / "inbox"


def prepare_watch(chaos: Chaos) -> None:
    """Save a watched folder, and a function that runs for each new file."""
    _inbox(chaos).mkdir()
    workload.save(chaos, SEEN)
    chaos.client.sources.save("file", "inbox", {"path": str(_inbox(chaos))}, author="chaos")
    chaos.client.register_trigger(
        "seen", on={"type": ["file.created"]}, function="seen", input={"path": "{{ event.data.path }}"}
    )


def drop(chaos: Chaos, number: int) -> None:
    """Write a file that appears complete."""
    part = chaos.folder / "part"
    part.write_text(f"{number}\n" * 10)
    part.rename(_inbox(chaos) / f"{number}.txt")


def reported_once(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that every file made exactly one event."""
    with chaos.database.read() as tx:
        names = sorted(
            Path(row["data"]["path"]).name
            for row in tx.rows(sa.select(event.c.data).where(event.c.type == "file.created"))
        )
    wanted = sorted(f"{number}.txt" for number in range(chaos.n))
    if names != wanted:
        missing, more = set(wanted) - set(names), [name for name in set(names) if names.count(name) > 1]
        return [f"of {chaos.n} files {sorted(missing)} made no event, {more} more than one"]
    return []


@fault(
    "watcher-kill",
    workload=Workload(prepare_watch, drop, matches={"file.created": ("seen",)}, halt=lambda chaos: None),
    layout={**LAYOUT, "watcher": 2},
    expect=reported_once,
)
def kill_watcher(chaos: Chaos) -> None:
    """Kill watchers at random times, while files arrive. The next watcher finds the files that it missed."""
    kill_at_random(chaos, "watcher", 3)
    chaos.wait(chaos.given.complete.is_set, "the last file")

    def all_reported() -> bool:
        with chaos.database.read() as tx:
            return (
                int(
                    tx.scalar(
                        sa.select(sa.func.count()).select_from(event).where(event.c.type == "file.created")
                    )
                    or 0
                )
                >= chaos.n
            )

    chaos.wait(all_reported, "the last file's event")
