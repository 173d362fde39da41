"""Checks a finished run: the engine's own invariants, and an independent oracle.

The oracle reads the journal: the transaction of each state change, and the triggers that existed when each event was
routed. It has a second, plain implementation of guards and matches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from functory.engine.maintenance import invariants
from tests.simulation.engine.scenario import POISON
from tests.simulation.engine.world import World

# The ids of events that the template's database has.
BEFORE_THE_RUN = "01000000"
Found = list[tuple[str, str]]

TERMINAL = ("succeeded", "failed", "timed_out", "cancelled", "dead", "expired")


def check(world: World) -> Found:
    """All violations as (code, what), those of the engine's own invariants first."""
    found: Found = []
    for result in invariants.verify(world.database, world.settings, patience=0):
        if result.count:
            found.append((result.code, f"{result.title}: {result.count}, {'; '.join(result.examples)}"))
    view = _View(world)
    for look in (
        _transitions,
        _attempts,
        _routing,
        _firings,
        _budgets,
        _lanes,
        _clients,
        _steps,
        _published,
        _outages,
    ):
        found += look(view)
    return found


def counts(world: World) -> Counter[str]:
    """Counts of a run, by name."""
    record = world.record
    return Counter(
        steps=world.count,
        transactions=len(world.transactions),
        executions=world.scalar("SELECT count(*) FROM execution") or 0,
        attempts=world.scalar("SELECT count(*) FROM attempt") or 0,
        lost=world.scalar("SELECT count(*) FROM attempt WHERE outcome = 'lost'") or 0,
        released=world.scalar("SELECT count(*) FROM attempt WHERE outcome = 'released'") or 0,
        suppressed=world.scalar("SELECT count(*) FROM firing WHERE decision = 'suppressed'") or 0,
        quarantined=world.scalar("SELECT count(*) FROM event WHERE state = 'quarantined'") or 0,
        zombies=record.zombies,
        crashes=record.crashes,
        pauses=record.pauses,
        outages=record.outages,
    )


class _View:
    """The database at the end, read once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.executions = {row["id"]: row for row in self.rows("SELECT * FROM execution")}
        self.events = {row["id"]: row for row in self.rows("SELECT * FROM event")}
        self.attempts = self.rows("SELECT * FROM attempt")
        self.firings = self.rows(
            "SELECT firing.*, name FROM firing JOIN trigger ON trigger.id = firing.trigger_id"
        )
        self.journal = world.database.raw.execute("SELECT * FROM sim_journal ORDER BY seq").fetchall()

    def rows(self, statement: str) -> list[dict[str, Any]]:
        cursor = self.world.database.raw.execute(statement)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _transitions(view: _View) -> Found:
    """Every state change is one of the state machine, with its event in the same transaction."""
    found: Found = []
    reported: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for _, tx, what, id_, old, _new, type_, *_ in view.journal:
        if what == "event" and old is None and type_.startswith("execution."):
            source = view.events[id_]["source"].rsplit("/", 1)[-1].replace("-", "")
            reported[tx, source][type_] += 1
    wanted: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    ends: Counter[str] = Counter()
    finishing = view.world.record.finishing
    for id_ in sorted(view.world.record.sent_in_transaction):
        found.append(("sent in a transaction", f"execution {id_} was sent while its rows were locked"))
    for _, tx, what, id_, old, new, fence, now_fence, attempt, now_attempt in view.journal:
        if what != "execution" or old is None:
            continue
        raised, tried = now_fence - fence, now_attempt - attempt
        reaped = view.world.transactions[tx - 1][1].startswith("reaper/")
        if not _is_arrow(old, new, raised, tried) or (reaped and raised != 1):
            found.append(
                (
                    "transition",
                    f"{id_}: {old} → {new}, fence {fence} → {now_fence}, attempt {attempt} → {now_attempt}",
                )
            )
        with_fence = finishing.get(tx, {}).get(id_, fence)
        if old == "running" and with_fence != fence:
            found.append(("zombie's finish", f"{id_} had fence {fence}, and one with {with_fence} ended it"))
        if new in TERMINAL:
            ends[id_] += 1
            wanted[tx, id_][f"execution.{new}"] += 1
        elif old == "queued":
            wanted[tx, id_]["execution.started"] += 1
        elif tried == 0:
            wanted[tx, id_]["execution.attempt_failed"] += 1
    for key in wanted.keys() | reported.keys():
        if wanted[key] != reported[key]:
            found.append(
                (
                    "event with the change",
                    f"{key[1]}: changes ask for {dict(wanted[key])}, reported were {dict(reported[key])}",
                )
            )
    for id_, row in view.executions.items():
        if ends[id_] != 1 or row["state"] not in TERMINAL:
            found.append(("one end", f"{id_} is {row['state']} and has ended {ends[id_]} times"))
    return found


def _is_arrow(old: str, new: str, raised: int, tried: int) -> bool:
    if old == "queued" and new == "running":
        return raised == 1 and tried == 1
    if old == "queued":
        return new in ("cancelled", "expired") and tried == 0
    if old == "running" and new == "queued":
        # Queued for another try; lost, where the reaper raises the fence; or released, which does not count.
        return (raised, tried) in ((0, 0), (1, 0), (0, -1))
    if old == "running" and new in ("cancelled", "dead"):
        return raised in (0, 1) and tried == 0
    return old == "running" and new in ("succeeded", "failed", "timed_out") and raised == tried == 0


def _attempts(view: _View) -> Found:
    """Every attempt that began is counted; the last one committed; none began twice or beyond its limit."""
    found: Found = []
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in view.attempts:
        by_id[row["execution_id"]].append(row)
    begun = Counter(view.world.record.begun)
    for key, number in begun.items():
        if number > 1:
            found.append(("began once", f"{key} began {number} times"))
        if key[1] not in {row["fence"] for row in by_id[key[0]]}:
            found.append(("began once", f"{key} began without an attempt"))
    for id_, row in view.executions.items():
        tries = by_id[id_]
        counted = [one for one in tries if one["outcome"] != "released"]
        if len(counted) != row["attempt"] or row["attempt"] > row["max_attempts"]:
            found.append(
                (
                    "attempts counted",
                    f"{id_}: {len(counted)} count, attempt {row['attempt']} of {row['max_attempts']}",
                )
            )
        if any(one["ended_at"] is None for one in tries):
            found.append(("no open attempt", f"{id_} has one"))
        if row["state"] == "succeeded":
            highest = max(one["fence"] for one in tries)
            if f'"fence":{highest},' not in row["result"].replace(" ", ""):
                found.append(
                    ("highest fence", f"{id_}: the result is {row['result']}, the last fence is {highest}")
                )
    return found


def _routing(view: _View) -> Found:
    """Every event is routed once; an event at which the router fails is quarantined."""
    found: Found = []
    for id_, row in view.events.items():
        if row["state"] == "pending":
            found.append(("routed", f"event {id_} of type {row['type']} is pending"))
        if row["state"] == "quarantined" and (row["type"] != POISON or row["route_attempts"] < 5):
            found.append(("routed", f"event {id_} of type {row['type']} was put aside: {row['problem']}"))
    return found


def _firings(view: _View) -> Found:
    """Each trigger made one decision about each event that it matches, and the decision is right."""
    found: Found = []
    deck, settings = view.world.deck, view.world.settings
    held = {name for name, rule in deck.rules.items() if rule.flow.keys() & {"debounce", "batch"}}
    made: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in view.firings:
        made[row["event_id"], row["name"]].append(row)
    started: Counter[tuple[str, str]] = Counter()
    by_trigger = {row["id"]: row["name"] for row in view.rows("SELECT id, name FROM trigger")}
    for row in view.executions.values():
        if row["trigger_id"] is not None:
            started[row["event_id"], by_trigger[row["trigger_id"]]] += 1
    expected: set[tuple[str, str]] = set()
    for _, _tx, what, id_, _old, new, type_, there, *_ in view.journal:
        # An event that is written as routed must be one that no trigger of that time matches.
        if what != "event" or new != "routed":
            continue
        event = view.events[id_]
        for state_of in (there or "").split(","):
            if not state_of:
                continue
            name, state, version = state_of.split()
            if not deck.rules[name].fires_for(type_, event["subject"]):
                continue
            expected.add((id_, name))
            rows = made[id_, name]
            if len(rows) != 1:
                found.append(("one decision", f"{name} decided {len(rows)} times about {type_} {id_}"))
                continue
            (row,) = rows
            reason = _reason(view, deck.rules[name], name, state, event, settings.max_depth)
            got = row["reason"] if row["decision"] == "suppressed" else None
            if reason is None and (
                got == "budget" or (got == "debounced" and "debounce" in deck.rules[name].flow)
            ):
                # The budgets limit their number. A started execution ends the silence.
                reason = got
            if got != reason or (row["trigger_version"] != int(version) and name not in held):
                found.append(
                    (
                        "right decision",
                        f"{name} about {type_} {id_}: {got or 'fired'}, expected {reason or 'fired'}",
                    )
                )
            if not row["joint"] and started[id_, name] != (got is None):
                found.append(("one execution", f"{name} started {started[id_, name]} for {type_} {id_}"))
            if got is None and (row["execution_id"] not in view.executions):
                found.append(
                    ("one execution", f"{name} names execution {row['execution_id']} for {type_} {id_}")
                )
    for key in made.keys() - expected:
        found.append(("one decision", f"{key[1]} decided about event {key[0]}, which is not its own"))
    return found


def _reason(
    view: _View, rule: Any, name: str, state: str, event: dict[str, Any], max_depth: int
) -> str | None:
    """The reason why the trigger must not fire; None when it must."""
    from functory.engine.serialization import json_codec

    if state == "paused":
        return "trigger_paused"
    chain = json_codec.loads(event["chain"])
    names = [link["name"] for link in chain]
    if names and names[-1] == name and not rule.guards.get("allow_self"):
        return "own_event"
    revisits = rule.guards.get("max_revisits", 1)
    if (
        revisits
        and sum(link["name"] == name and link["subject"] == event["subject"] for link in chain) >= revisits
    ):
        return "cycle"
    return "depth" if event["depth"] + 1 > max_depth else None


def _budgets(view: _View) -> Found:
    """The budget of a root counts its executions exactly. A root never exceeds its budget, and a guard refuses
    nothing before the budget is used up."""
    found: Found = []
    caused = Counter(
        row["root_id"] for row in view.executions.values() if row["cause"] in ("trigger", "parent")
    )
    stopped = {row["root_id"] for row in view.firings if row["reason"] == "budget"}
    budgets = {row["root_id"]: row for row in view.rows("SELECT * FROM budget")}
    limit = view.world.settings.root_budget
    for root, number in caused.items():
        used = budgets[root]["used"] if root in budgets else 0
        if used != number or number > limit or (root in stopped and number < limit):
            found.append(("budget", f"root {root} has caused {number}; the budget says {used} of {limit}"))
    return found


def _lanes(view: _View) -> Found:
    """Of a concurrency group of one, one execution runs."""
    found: Found = []
    narrow = {name for name, rule in view.world.deck.rules.items() if "concurrency" in rule.flow}
    if not narrow:
        return found
    ids = {row["id"] for row in view.rows("SELECT id, name FROM trigger") if row["name"] in narrow}
    running: set[str] = set()
    for _, _tx, what, id_, _old, new, *_ in view.journal:
        if what != "execution" or view.executions[id_]["trigger_id"] not in ids:
            continue
        (running.add if new == "running" else running.discard)(id_)
        if len(running) > 1:
            found.append(
                ("concurrency group", f"{sorted(running)} run at a time in a concurrency group of one")
            )
            break
    left = view.rows("SELECT execution_id FROM slot")
    if left:
        found.append(("concurrency group", f"places were not given back: {left}"))
    return found


def _clients(view: _View) -> Found:
    """Every request that the engine acknowledged took effect once."""
    found: Found = []
    record = view.world.record
    keys = Counter(row["dedup_key"] for row in view.events.values() if row["dedup_key"])
    for key, type_ in record.emitted.items():
        if keys[key] != 1:
            found.append(("taken once", f"event {type_} of key {key} is there {keys[key]} times"))
    for key, id_ in record.keys.items():
        if id_.replace("-", "") not in view.executions or key.endswith(" twice"):
            found.append(("taken once", f"execution {id_} of key {key}"))
    for id_ in record.replays:
        if view.executions.get(id_.replace("-", ""), {}).get("replay_of") is None:
            found.append(("taken once", f"replay {id_}"))
    for event in view.events.values():
        cause = event["cause_execution_id"]
        if cause is not None and event["depth"] != view.executions[cause]["depth"]:
            found.append(("lineage", f"event {event['id']} has depth {event['depth']}"))
    return found


def _steps(view: _View) -> Found:
    """A durable call succeeded at most once. Each step of a failed execution is compensated once, unless the
    execution continues."""
    found: Found = []
    acts = view.world.deck.behaviours.items()
    durable = {name: Counter(act.calls for act in one.acts if act.durable) for name, one in acts}
    done: Counter[tuple[str, str]] = Counter()
    for row in view.executions.values():
        if row["cause"] == "parent" and row["state"] == "succeeded":
            done[row["parent_id"], row["function"]] += 1
    for (parent, name), number in done.items():
        allowed = durable[view.executions[parent]["function"]][name]
        if allowed and number > allowed:
            found.append(
                (
                    "durable once",
                    f"{name} succeeded {number} times for {parent}, which calls it {allowed} times",
                )
            )
    undone = {row["step_id"]: row for row in view.rows("SELECT * FROM compensation")}
    # The compensation of a step has failed for good: the saga waits for an operator.
    stuck = {
        row["saga_id"]
        for row in undone.values()
        if row["state"] == "failed"
        and row["execution_id"] is not None
        and view.executions[row["execution_id"]]["state"] in ("failed", "timed_out", "dead", "cancelled")
    }
    for id_, row in view.executions.items():
        compensation = view.world.deck.behaviours[row["function"]].compensate
        if not compensation or row["parent_id"] is None or row["state"] != "succeeded":
            continue
        above = view.executions[row["parent_id"]]
        plan = undone.get(id_)
        if above["state"] == "succeeded" and plan is not None:
            found.append(("undone", f"{row['function']} {id_} was undone, though its caller has succeeded"))
        elif above["state"] != "succeeded" and (plan is None or plan["state"] != "done"):
            if plan is not None and plan["saga_id"] in stuck and plan["state"] in ("failed", "pending"):
                continue
            state = None if plan is None else plan["state"]
            found.append(("undone", f"{row['function']} {id_} of a caller that is {above['state']}: {state}"))
    return found


def _published(view: _View) -> Found:
    """Subscribers got every event."""
    missing = view.events.keys() - view.world.record.published
    return [
        ("published", f"event {id_} of type {view.events[id_]['type']} was never published")
        for id_ in sorted(missing)
        if not id_.startswith(BEFORE_THE_RUN)
    ]


def _outages(view: _View) -> Found:
    """An outage of the database alone costs no attempt."""
    record, plan = view.world.record, view.world.plan
    if not record.outages or record.crashes or record.pauses or plan.error:
        return []
    lost = [row["execution_id"] for row in view.attempts if row["outcome"] == "lost"]
    return [("an outage loses nothing", f"attempts of {lost} were lost")] if lost else []
