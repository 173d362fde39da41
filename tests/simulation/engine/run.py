"""Runs one seed or many seeds, and reports the seeds that fail."""

from __future__ import annotations

import gc
import logging
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import structlog

from tests.simulation.engine import checks, faults, roles
from tests.simulation.engine.broker import Broker
from tests.simulation.engine.clients import Client
from tests.simulation.engine.database_template import Alter, Template
from tests.simulation.engine.faults import Chaos
from tests.simulation.engine.scenario import MAKERS
from tests.simulation.engine.worker import Worker
from tests.simulation.engine.world import Violation, World

# Virtual seconds: how long faults continue after the clients' last request, and how long all work may take after
# that.
AFTERMATH = 12.0
PATIENCE = 7200.0
# The longest time with faults, in virtual seconds.
LONGEST = 120.0


@dataclass
class Outcome:
    """The outcome of a seed; ``violations`` are (code, what) in the order in which they were found."""

    seed: int
    deck: str
    violations: list[tuple[str, str]] = field(default_factory=list)
    steps: Sequence[tuple[Any, ...]] = ()
    counts: Counter[str] = field(default_factory=Counter)

    def report(self) -> str:
        """The report of a seed for people: the command that repeats it, its violations, and the steps before them."""
        lines = [f"seed {self.seed} ({self.deck}), commit {commit()}"]
        lines += [f"  {code}: {what}" for code, what in self.violations]
        lines.append(f"  the last {len(self.steps)} steps:")
        lines += [f"    {at:9.3f}  {name:<14} {' '.join(map(str, what))}" for at, name, *what in self.steps]
        lines.append(f"  again: python -m tests.simulation --seed {self.seed} --trace")
        return "\n".join(lines)


class Simulation:
    """Runs seeds, and keeps the database template of every deck.

    With ``usual``, every statement goes through SQLAlchemy's connection, and takes three times as long.
    """

    def __init__(self, alter: Alter | None = None, *, usual: bool = False) -> None:
        # A simulated crash is not printed.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        self._alter = alter
        self._usual = usual
        self._templates: dict[int, Template] = {}

    def prepare(self) -> None:
        """Make all templates now, before a mutant changes the engine."""
        for number in range(len(MAKERS)):
            self._template(number)

    def _template(self, number: int) -> Template:
        if number not in self._templates:
            self._templates[number] = Template(MAKERS[number](), self._alter, usual=self._usual)
        return self._templates[number]

    def run(self, seed: int, *, trace: bool = False) -> Outcome:
        """Run one seed: a half with faults, a half without, then the checks."""
        rng = Random(seed)
        template = self._template(rng.randrange(len(MAKERS)))
        deck = template.deck
        plan = faults.draw(rng)
        world = World(seed, template.reset(), deck, plan, rng, trace)
        world.broker = Broker(world)
        world.deck_state["script"] = [rng.choice(deck.deeds) for _ in range(rng.choice(deck.count))]
        outcome = Outcome(seed, deck.name)
        try:
            self._play(world)
        except Violation as broken:
            outcome.violations.append((broken.code, str(broken)))
        except Exception as error:
            # In production a role that raises logs the error and begins its next round; here it is a failure.
            outcome.violations.append(("exception", "".join(traceback.format_exception(error))))
        else:
            outcome.violations += checks.check(world)
        outcome.steps = list(world.steps)
        if not any(code == "exception" for code, _ in outcome.violations):
            outcome.counts = checks.counts(world)
        return outcome

    def _play(self, world: World) -> None:
        for make in _processes(world):
            world.start(lambda make=make: make(world))
        world.start(lambda: Client(world))
        world.start(lambda: Chaos(world))
        script = world.deck_state["script"]
        world.run(lambda: not script, LONGEST)
        if world.run(lambda: _is_done(world), world.now + AFTERMATH) and world.rng.random() < 0.5:
            return
        world.note("faults end")
        world.plan.on = False
        world.away_until = world.broker.away_until = 0.0
        for process in world.processes:
            process.paused_until = min(process.paused_until, world.now + 20.0)
        _settle(world)
        if not world.run(lambda: not script and _is_done(world), world.now + PATIENCE):
            raise Violation("liveness", f"not done after {PATIENCE:g} s without faults: {_open(world)}")


def _processes(world: World) -> list[Callable[[World], Any]]:
    made = [roles.router, roles.dispatcher, roles.reaper] * 2 + [roles.cancels, roles.retention]
    made += [Worker] * world.rng.choice((2, 2, 3))
    if world.deck.flows:
        made += [roles.flow] * 2
    # Also in a deck without compensations: a caller that dies leaves open steps, and the run waits for them.
    made += [roles.saga] * 2
    if world.deck.undoes:
        made.append(roles.compensation_operator)
    return made


def _settle(world: World) -> None:
    """Act as an operator: remove what would stop the work for ever."""
    world.deck_state["cured"] = True
    world.database.raw.execute("DELETE FROM switch")


OPEN = (
    ("events", "SELECT 1 FROM event WHERE state = 'pending'"),
    ("outbox", "SELECT 1 FROM outbox"),
    ("executions", "SELECT 1 FROM execution WHERE state IN ('queued', 'running')"),
    ("buffers", "SELECT 1 FROM buffered_match"),
    ("cancellations", "SELECT 1 FROM cancellation"),
    ("cancels", "SELECT 1 FROM open_cancel"),
    ("compensations", "SELECT 1 FROM compensation WHERE state IN ('waiting', 'pending', 'running')"),
)
_ANY = " UNION ALL ".join(statement for _, statement in OPEN) + " LIMIT 1"


def _is_done(world: World) -> bool:
    # This is checked after each step, and most steps write nothing.
    changes = world.database.raw.total_changes
    asked, done = world.deck_state.get("done", (None, False))
    if asked != changes:
        done = world.scalar(_ANY) is None
        world.deck_state["done"] = changes, done
    return done


def _open(world: World) -> str:
    return ", ".join(name for name, statement in OPEN if world.scalar(statement) is not None)


@dataclass
class Summary:
    """The figures of many seeds."""

    seeds: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    failed: list[Outcome] = field(default_factory=list)
    decks: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


def run_many(
    seeds: Sequence[int],
    *,
    stop_at_first: bool = False,
    simulation: Simulation | None = None,
    within: float | None = None,
) -> Summary:
    """Run these seeds one after another. No seed begins later than ``within`` seconds after the first."""
    simulation = simulation or Simulation()
    summary = Summary()
    start, processor = time.perf_counter(), time.process_time()
    # Millions of small objects live as long as the templates: collecting garbage among them would take a fifth of the
    # time.
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1000)
    try:
        for seed in seeds:
            if within is not None and time.perf_counter() - start > within:
                break
            outcome = simulation.run(seed)
            summary.seeds += 1
            summary.decks[outcome.deck] += 1
            summary.counts += outcome.counts
            if outcome.violations:
                summary.failed.append(outcome)
                if stop_at_first:
                    break
    finally:
        gc.set_threshold(*usual)
    summary.seconds = time.perf_counter() - start
    summary.processor_seconds = time.process_time() - processor
    return summary


def commit() -> str:
    """The checked-out commit, which a failure report names."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
        )
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"
