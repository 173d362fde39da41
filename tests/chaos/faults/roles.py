"""Faults of the other roles: killed at random, and dying at the worst point of their transactions again and again."""

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

# A run in which the hook struck less often has shown little; more often, and it only takes time.
STRIKES = 4


def kill_at_random(chaos: Chaos, role: str, times: int = 4) -> None:
    """SIGKILL a random process of the role, several times, while the work goes on."""
    for _ in range(times):
        chaos.pause(0.2, 1.5)
        victim = chaos.rng.choice(chaos.wait(lambda: chaos.deployment.of(role), f"a {role} that lives"))
        chaos.mark()
        victim.kill()


@fault("router-kill")
def kill_router(chaos: Chaos) -> None:
    """Any router at any time."""
    kill_at_random(chaos, "router")


@fault("scheduler-kill")
def kill_scheduler(chaos: Chaos) -> None:
    """Any scheduler at any time: its ticks, its messages, its reaping."""
    kill_at_random(chaos, "scheduler")


def hooked(role: str, hook: str, p: float) -> Callable[[Chaos], None]:
    """A ``prepare`` that runs the role with a hook."""

    def prepare(chaos: Chaos) -> None:
        chaos.hook(role, hook, p)

    return prepare


def dying(chaos: Chaos) -> None:
    """Let the hook strike until it has struck often enough, or the work is done in spite of it."""
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
    """A hook that never struck proves nothing."""
    return [] if chaos.strikes else ["the hook did not strike"]


def dying_reaper(chaos: Chaos) -> None:
    """A worker is killed, so that there is something to reap; then reapers die with it in their hands."""
    chaos.armed.touch()
    chaos.pause(0, 1)
    victim = chaos.busy_worker()
    chaos.mark()
    kill_tree(victim)
    try:
        # Each incarnation waits one lease before it believes in any: two deaths take a while.
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
    """Routers and schedulers dispatch."""
    for role in ("router", "scheduler"):
        chaos.hook(role, hook, 0.3)


# What cannot be reached, does not answer or breaks off: the sender tries again, with the same id.
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
            with urllib.request.urlopen(request, timeout=10) as answer:
                chaos.given.events.append(json.load(answer)["event"])
                return
        except _AWAY:
            continue
    raise Unavailable("no server takes the event", "none answers", "it is sent again")


SENT = Workload(ORDERS.prepare, send, matches=ORDERS.matches, halt=ORDERS.halt)


def taken_once(chaos: Chaos, counts: Counts) -> list[str]:
    """An event that was sent again, because its answer was lost with the server, is one event."""
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
    """Any HTTP server at any time, while events are sent there."""
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
    """A watched folder, and a function for each file that comes."""
    _inbox(chaos).mkdir()
    workload.save(chaos, SEEN)
    chaos.client.sources.save("file", "inbox", {"path": str(_inbox(chaos))}, author="chaos")
    chaos.client.register_trigger(
        "seen", on={"type": ["file.created"]}, function="seen", input={"path": "{{ event.data.path }}"}
    )


def drop(chaos: Chaos, number: int) -> None:
    """A file, complete from the start."""
    part = chaos.folder / "part"
    part.write_text(f"{number}\n" * 10)
    part.rename(_inbox(chaos) / f"{number}.txt")


def told_once(chaos: Chaos, counts: Counts) -> list[str]:
    """Every file makes one event, whichever watcher ran."""
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
    expect=told_once,
)
def kill_watcher(chaos: Chaos) -> None:
    """Any watcher at any time, while files come in. The next one finds the files of the meantime."""
    kill_at_random(chaos, "watcher", 3)
    chaos.wait(chaos.given.complete.is_set, "the last file")

    def all_told() -> bool:
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

    chaos.wait(all_told, "the last file's event")
