"""Mutants: the engine with one wrong line; the simulation must find each of these defects.

A mutant replaces one text in the real source of a function, and runs the changed function in its place. The text must
occur exactly once. So a mutant follows the code, and raises :class:`Moved` when its text is gone.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.engine.run import Simulation, Summary, run_many


@dataclass(frozen=True)
class Edit:
    """The replacement of one text in the source of a function, or of a statement that a module builds once.

    ``also`` are modules that have imported it by its name.
    """

    module: str
    name: str
    old: str
    new: str
    also: Sequence[str] = ()


@dataclass(frozen=True)
class Mutant:
    """A defect: its edits, names that they need, and what it does to the tables."""

    name: str
    edits: Sequence[Edit]
    names: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    alter: Callable[[Any], None] | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the engine this defect until the block ends."""
        undo: list[Callable[[], None]] = []
        try:
            names = {name: make() for name, make in self.names.items()}
            for place in dict.fromkeys((edit.module, edit.name) for edit in self.edits):
                undo += _apply([edit for edit in self.edits if (edit.module, edit.name) == place], names)
            yield
        finally:
            for one in reversed(undo):
                one()


class Moved(AssertionError):
    """The code that a mutant rewrites does not exist any more."""


@functools.cache
def _source(module: str, name: str) -> str:
    """The source of a function, or of the assignment to a module's name. The first read is cached: a later edit of
    the file changes nothing."""
    owner: Any = importlib.import_module(module)
    whole = inspect.getsource(owner)
    for node in ast.parse(whole).body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == [name]:
            return ast.get_source_segment(whole, node) or ""
    for part in name.split("."):
        owner = inspect.getattr_static(owner, part)
    return textwrap.dedent(inspect.getsource(owner))


def _apply(edits: Sequence[Edit], names: Mapping[str, Any]) -> list[Callable[[], None]]:
    """Apply all edits of one function. Returns a function that undoes them."""
    edit = edits[0]
    module = importlib.import_module(edit.module)
    owner: Any = module
    *path, last = edit.name.split(".")
    for part in path:
        owner = getattr(owner, part)
    before = inspect.getattr_static(owner, last)
    source = _source(edit.module, edit.name)
    for one in edits:
        if source.count(one.old) != 1:
            raise Moved(
                f"{one.module}.{one.name} has {source.count(one.old)} times {one.old!r}: "
                "the mutant must be written anew"
            )
        source = source.replace(one.old, one.new)
    for name, value in names.items():
        module.__dict__.setdefault(name, value)
    made: dict[str, Any] = {}
    # The changed function uses the names of its own module. Its annotations stay unevaluated, as in that module.
    exec(
        compile(f"from __future__ import annotations\n{source}", f"<mutant of {edit.name}>", "exec"),
        module.__dict__,
        made,
    )
    undo: list[Callable[[], None]] = []
    for place in (owner, *(importlib.import_module(other) for other in edit.also)):
        setattr(place, last, made[last])
        undo.append(lambda place=place: setattr(place, last, before))

    def forget() -> None:
        for name in names:
            module.__dict__.pop(name, None)

    return [*undo, forget]


def _without_keys(raw: Any) -> None:
    """Remove the unique and foreign keys of executions and firings."""
    raw.execute("PRAGMA foreign_keys=OFF")
    for table in ("firing", "execution"):
        raw.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
        raw.execute(f"DROP TABLE {table}")
        raw.execute(f"ALTER TABLE loose RENAME TO {table}")
    raw.execute("CREATE UNIQUE INDEX loose_execution ON execution (id)")
    raw.execute("PRAGMA foreign_keys=ON")


_FINISH = 'execution.c.id == _OWN_ID, execution.c.fence == _OWN_FENCE, execution.c.state == "running"'
_STORED = "return self._database.group_commit(self._storing(endings))\n"


def _finish_with(condition: str) -> list[Edit]:
    """The edits that give both statements of a finish this condition."""
    return [
        Edit("functory.engine.executions.completion", "_FINISHED", _FINISH, condition),
        Edit("functory.engine.executions.success_batch", "_SUCCEEDED", _FINISH, condition),
    ]


_FIND_ALL_RUNNING = Edit(
    "functory.engine.executions.success_batch",
    "_running",
    "if (ending.claim.id, ending.claim.fence) in running",
    "if ending.claim.id in {id_ for id_, _ in running}",
)
_STARTED = "    self._append_events(\n        tx,\n        [execution_event("

MUTANTS: Sequence[Mutant] = (
    Mutant(
        "finish without fence",
        [*_finish_with(_FINISH.replace("execution.c.fence == _OWN_FENCE, ", "")), _FIND_ALL_RUNNING],
    ),
    Mutant(
        "finish without any guard",
        [*_finish_with("execution.c.id == _OWN_ID"), _FIND_ALL_RUNNING],
    ),
    Mutant(
        "only a finish of many without fence",
        [
            Edit(
                "functory.engine.executions.success_batch",
                "_SUCCEEDED",
                _FINISH,
                _FINISH.replace("execution.c.fence == _OWN_FENCE, ", ""),
            ),
            _FIND_ALL_RUNNING,
        ],
    ),
    Mutant(
        "the second result of a group is lost",
        [
            Edit(
                "functory.engine.executions.success_batch",
                "_store_on_sqlite",
                "mine = [endings[position] for position in sorted(own)]",
                "mine = [endings[position] for position in sorted(own)][:1]",
            )
        ],
    ),
    Mutant(
        "claim unconditional",
        [Edit("functory.engine.executions.claim_batch", "_CLAIMED", "*_CLAIMABLE", "*_CLAIMABLE[::2]")],
    ),
    Mutant(
        "no redispatch",
        [
            Edit(
                "functory.engine.executions.dispatch",
                "take_due",
                "again = _overdue_ids(",
                "again = [] and _overdue_ids(",
            )
        ],
    ),
    Mutant(
        "no unique key, routed in a second transaction",
        [
            Edit(
                "functory.triggers.routing.router",
                "Router.route",
                "    routing_queue.mark_routed(tx, [event.id for event in events])\n",
                "",
            ),
            Edit(
                "functory.triggers.routing.router",
                "Router.route_batch",
                "            result = self.route(tx, self._take(tx))\n",
                "            batch = self._take(tx)\n"
                "            result = self.route(tx, batch)\n"
                "        with self._database.write() as tx:\n"
                "            routing_queue.mark_routed(tx, [row.id for row in batch.events])\n",
            ),
        ],
        alter=_without_keys,
    ),
    Mutant(
        "terminal event in a second transaction",
        [
            Edit(
                "functory.engine.executions.completion",
                "finish",
                "append_events(tx, events)\n",
                "_later.append(events) if final else append_events(tx, events)\n",
            ),
            Edit(
                "functory.engine.executions.completion",
                "Completions._store_together",
                _STORED,
                "_later.clear()\n"
                f"        done = {_STORED.removeprefix('return ')}"
                "        self._database.group_commit(lambda tx: [append_for_router(tx, e) for e in _later])\n"
                "        return done\n",
            ),
        ],
        names={"_later": list},
    ),
    Mutant(
        "change and event in two transactions",
        [
            Edit(
                "functory.engine.executions.claims",
                "Claims._claim",
                _STARTED,
                "    (lambda rows, _: _later.append(rows))(\n        [execution_event(",
            ),
            Edit(
                "functory.engine.executions.claims",
                "Claims._claim_or_remember",
                "return self._database.group_commit(lambda tx: claim(tx, taken))",
                "_later.clear()\n"
                "        claims = self._database.group_commit(lambda tx: claim(tx, taken))\n"
                "        self._database.group_commit(lambda tx: [append_for_router(tx, rows) for rows in _later])\n"
                "        return claims",
            ),
        ],
        names={"_later": list},
    ),
    Mutant(
        "no depth guard",
        [
            Edit(
                "functory.triggers.routing.guards",
                "check_guards",
                "event.depth + 1 > limit",
                "False",
                also=["functory.triggers.routing.decision"],
            )
        ],
    ),
    Mutant(
        "no budget",
        [
            Edit(
                "functory.engine.firings.admission",
                "RootBudgets.refusal",
                "spent >= limit",
                "False",
            )
        ],
    ),
    Mutant(
        "reaper does not raise the fence",
        [
            Edit(
                "functory.engine.maintenance.lost_workers",
                "_REQUEUED",
                "fence=execution.c.fence + 1,\n",
                "\n",
            )
        ],
    ),
    Mutant(
        "what has ended stays in flight",
        [
            Edit(
                "functory.engine.executions.queue_rows",
                "remove_running",
                'tx.execute(_DELETE_IN_FLIGHT, {"ids": list(ids)})',
                "pass",
            )
        ],
    ),
    Mutant(
        "a retry is not put into the backlog",
        [
            Edit(
                "functory.engine.executions.queue_rows",
                "requeue",
                'tx.execute(_COPY_QUEUED, {"id": id_, "due": run_at, "at": queue_at or run_at})',
                "pass",
            )
        ],
    ),
    Mutant(
        "a cancelled execution stays in the backlog",
        [
            Edit(
                "functory.engine.executions.cancel_row",
                "_cancel_queued",
                "queue_rows.remove_queued(tx, row.id)",
                "pass",
            )
        ],
    ),
    Mutant(
        "a claim leaves its message's place unclaimed",
        [Edit("functory.engine.executions.queue_rows", "_CLAIMED", "claimed=True", "claimed=False")],
    ),
    Mutant(
        "a claim without a message leaves the row in the backlog",
        [
            Edit(
                "functory.engine.executions.queue_rows",
                "_TAKE",
                "sa.delete(backlog)\n    .where(one_of(backlog.c.execution_id), READY, backlog.c.run_at <= _NOW)\n"
                "    .returning(backlog)",
                "sa.select(backlog).where(one_of(backlog.c.execution_id))",
            )
        ],
    ),
    Mutant(
        "a release counts as an attempt",
        [
            Edit(
                "functory.engine.executions.leases",
                "release",
                "attempt=execution.c.attempt - 1,\n",
                "\n",
            )
        ],
    ),
    Mutant(
        "heartbeat ignores the fence",
        [
            Edit(
                "functory.engine.executions.leases",
                "_RENEWED",
                ".where(*_OWNED)",
                ".where(execution.c.id.in_(sa.bindparam('ids', expanding=True)), _OWNED[1])",
            ),
            Edit(
                "functory.engine.executions.leases",
                "Leases.heartbeat",
                '"mine": sorted(asked)',
                '"ids": [id_ for id_, _ in asked]',
            ),
            Edit(
                "functory.engine.executions.leases",
                "_lease_status",
                "asked - found.keys()",
                "{key for key in asked if key[0] not in {id_ for id_, _ in found}}",
            ),
        ],
    ),
    Mutant(
        "sent in a transaction",
        [
            Edit(
                "functory.workers.sending.sending",
                "Sending.send_due",
                "        self._send(ids)\n",
                "        with self._database.write():\n            self._send(ids)\n",
            )
        ],
    ),
    Mutant(
        "sent directly in the transaction",
        [
            Edit(
                "functory.workers.sending.sending",
                "Sending.send_committed",
                "        self._send(ids)\n",
                "        with self._database.write():\n            self._send(ids)\n",
            )
        ],
    ),
    Mutant(
        "sent directly and left in the backlog",
        [
            Edit(
                "functory.engine.executions.start",
                "write",
                "(queue_rows.add_sent if sent else queue_rows.add)(tx, rows)",
                "(queue_rows.add_sent if sent else queue_rows.add)(tx, rows); queue_rows.add(tx, rows * sent)",
                also=["functory.engine.firings.launch"],
            )
        ],
    ),
    Mutant(
        "a batch half published",
        [
            Edit(
                "functory.engine.events.batch_publisher",
                "BatchPublisher._release",
                "outbox.claim(tx, ids, None)",
                "outbox.mark_published(tx, ids)",
            ),
            Edit(
                "functory.engine.maintenance.outbox_publisher",
                "OutboxPublisher.run_once",
                "outbox.claim(tx, ids, None)",
                "outbox.mark_published(tx, ids)",
            ),
        ],
    ),
    Mutant(
        "a batch counts as confirmed before it is published",
        [
            Edit(
                "functory.engine.events.batch_publisher",
                "BatchPublisher._take",
                "batches.append(self._waiting.popleft())\n",
                "batches.append(self._waiting.popleft())\n"
                "        self._confirmed += batches[-1].outbox_ids\n",
            )
        ],
    ),
    Mutant(
        "routed events are left out of the outbox",
        [
            Edit(
                "functory.triggers.routing.router",
                "Router.route",
                "    self._publisher.put(tx, taken.unpublished)\n",
                "",
            )
        ],
    ),
    Mutant(
        "an event is decided with triggers that have changed since",
        [
            Edit(
                "functory.engine.events.decided_events",
                "append",
                "current = facts.trigger_changes == unwanted.trigger_changes",
                "current = True",
            )
        ],
    ),
    Mutant(
        "decided events are left out of the outbox",
        [
            Edit(
                "functory.engine.events.decided_events",
                "append",
                "    publisher.put(tx, [event_row.from_mapping(row) for row in rows])\n",
                "",
            )
        ],
    ),
    Mutant(
        "a retry without its row in the backlog",
        [
            Edit(
                "functory.engine.executions.queue_rows",
                "requeue",
                "    tx.execute(_COPY_QUEUED, {",
                "    ({",
            )
        ],
    ),
    Mutant(
        "a row in flight is left behind",
        [
            Edit(
                "functory.engine.executions.success_batch",
                "_store_on_sqlite",
                "for ending in mine])\n",
                "for ending in mine[:1]])\n",
            )
        ],
    ),
    Mutant(
        "a recalled execution is not in the backlog",
        [
            Edit(
                "functory.engine.executions.queue_rows",
                "recall",
                "    tx.execute(_COPY_RECALLED, {",
                "    ({",
            )
        ],
    ),
    Mutant(
        "a zombie may emit",
        [Edit("functory.engine.events.causation", "check_fence", "if cause is None:", "if True:")],
    ),
    Mutant(
        "a durable call is made anew by each attempt",
        [
            Edit(
                "functory.workers.execution.child_calls",
                "ChildCalls.call_durable",
                "step_key=key",
                "step_key=None",
            )
        ],
    ),
    Mutant(
        "nothing is undone after a failure",
        [
            Edit(
                "functory.engine.executions.compensation.plan",
                "begin_if_failed",
                "state not in",
                "True or state not in",
            )
        ],
    ),
)


def hunt(seeds: Sequence[int], hunted: Sequence[Mutant] = MUTANTS) -> Iterator[tuple[Mutant, Summary]]:
    """Run each mutant until a seed fails. Yields each mutant with the summary of its seeds."""
    shared = Simulation()
    for edit in (edit for mutant in hunted for edit in mutant.edits):
        _source(edit.module, edit.name)
    for mutant in hunted:
        simulation = Simulation(mutant.alter) if mutant.alter else shared
        simulation.prepare()
        with mutant.applied():
            yield mutant, run_many(seeds, stop_at_first=True, simulation=simulation)


def named(name: str) -> Mutant:
    """The mutant of this name. Raises :class:`KeyError`."""
    return {one.name: one for one in MUTANTS}[name]
