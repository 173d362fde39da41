"""One database with the rows of two teams, in which everything of one team has a marker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functory.client.functory import Functory
from functory.engine.access.labels import Labels
from functory.engine.agents.directives import KEY
from functory.engine.releases.checks import Checks
from tests.support.model_calls import add_model, ask
from tests.support.world import World

# In each name and payload of the other team.
MARKER = "pineapple"
OURS, THEIRS = "team:a", "team:b"


@dataclass
class Teams:
    """Ids and names to ask for. ``ours`` and ``theirs`` have the same keys."""

    ours: dict[str, str] = field(default_factory=dict)
    theirs: dict[str, str] = field(default_factory=dict)


def fail(world: World, row: dict[str, Any], text: str, **more: Any) -> None:
    """End an execution badly, with ``text`` in each field that a function fills."""
    world.finish(
        world.claim(row),
        "failed",
        error={"type": "ValueError", "message": text, "traceback": text, "frames": [{"line": text}]},
        warnings=[text],
        logs=[{"seq": 1, "stream": "stdout", "level": "info", "text": text, "offset_seconds": 0.1}],
        spans=[
            {"seq": 1, "parent_seq": None, "function": row["function"], "version": 1, "input": {"w": text},
             "output": text, "error": {"type": "ValueError", "message": text}, "offset_seconds": 0.0,
             "duration_seconds": 0.1}
        ],
        **more,
    )  # fmt: skip


def propose(engine: Functory, name: str, text: str, **more: Any) -> dict[str, str]:
    """A proposal that waits for a person, with ``text`` in its tests and in the reports of them; and its question."""
    source = f"def {name}(w: str) -> str:\n    return w\n"
    tests = [{"name": f"of {text}", "input": {"w": text}, "equals": text}]
    id_ = engine.proposals.create(source, tests=tests, description=text, author="ada", **more)["id"]
    checks = Checks(engine.database, "worker-1", 30)
    while (work := checks.claim()) is not None:
        results = [{"name": f"of {text}", "verdict": "unknown", "message": text}]
        report = {"tests": results, "problem": text} if work.name == "tests" else {"problem": text}
        checks.finish(work, "warned", report, 0.1)
    engine.proposals.settle(id_)
    (question,) = engine.proposals.get(id_)["decisions"]
    return {"proposal": id_, "approval": question["id"]}


def run_that_asks(world: World, engine: Functory, agent: str, text: str, tool: str = "") -> dict[str, str]:
    """Start a run with ``text`` in each field that it fills. It waits for a person: for consent to ``tool``, or for an
    answer.
    """
    run = engine.runs.start(agent, text, author="ada", memo={"w": text})["id"]
    ask: dict[str, Any] = {"do": "ask", "question": text, "choices": [text, "no"]}
    use = {"do": "tools", "calls": [{"name": tool, "arguments": {"w": text}}]}
    world.finish(world.claim(world.executions.get(run)), result={KEY: use if tool else ask})
    return {"run": run, "question": engine.runs.get(run)["questions"][0]["id"]}


def seed(world: World, engine: Functory) -> Teams:
    """Two teams with functions, triggers, executions, trees, suppressed matches, states and a secret each.

    One event has started an execution of each team, and an execution of each team has a child of the other one.
    """
    teams, labels = Teams(), Labels(world.database)
    add_model(engine, "small", "http://127.0.0.1:9/v1")
    for names, word, label in ((teams.ours, "banana", OURS), (teams.theirs, MARKER, THEIRS)):
        function, child, trigger = f"{word}_bill", f"{word}_child", f"{word}-watch"
        for name in (function, child):
            world.function(
                name,
                limits={"retries": 0},
                secrets=[f"{word.upper()}_KEY"],
                metadata={"stackstorm": {"action": f"{word}.act"}},
            )
            labels.function(name, add=[label])
        world.trigger(trigger, function, {"type": ["order.created"]})
        world.trigger(
            f"{word}-own", function, {"type": [f"{word}.created"]},
            flow={"debounce": {"period": "1h", "key": "event.subject"}},
        )  # fmt: skip
        world.trigger(f"{word}-after", child, {"type": ["execution.failed"], "subject": [function]})
        for name in (trigger, f"{word}-own", f"{word}-after"):
            labels.trigger(name, add=[label])
        world.secrets.set(f"{word.upper()}_KEY", word)
        world.state.set(function, f"{word}-key", word)
        own = world.events.emit(f"{word}.created", {"w": word}, subject=word, dedup_key=word)
        single = world.executions.start(function, {"w": word}, idempotency_key=word)
        fail(world, single, word)
        # It waits: no gateway runs.
        call = ask(
            engine, word, function=function, root=single["root_id"], execution=single["id"], agent=word
        )
        labelled = {
            "call": call["id"],
            **propose(engine, f"{word}_new", word, labels=[label], secrets=[f"{word.upper()}_KEY"]),
            "name": function, "function": function, "child": child, "trigger": trigger,
            "own": f"{word}-own", "execution": single["id"],
            "event": own, "key": f"{word}-key", "secret": f"{word.upper()}_KEY", "type": f"{word}.created",
            "subject": word,
        }  # fmt: skip
        names.update(labelled)
        world.function(f"{word}_solve", "memo, given=None")
        labels.function(f"{word}_solve", add=[label])
        agent = {"function": f"{word}_solve", "tools": [child], "ask_before": [child], "memo": {"w": word}}
        names["agent"] = engine.agents.add(f"{word}_clerk", agent, author="ada")["name"]
        names |= run_that_asks(world, engine, names["agent"], word)
        told = engine.memory.add(word, scope="agent", owner=names["agent"], author=word)
        names["memory"] = told["id"]
        engine.annotations.describe(function, word, author=word)
        engine.functions.save(f"def {child}(**named):\n    return 2\n", name=child, activate=False)
        engine.canaries.start(child, 2, author=word)
        engine.canaries.hold(child, reason=word, author=word)
    shared = world.events.emit("order.created", {"n": 1}, subject="an order")
    world.route()
    started = {row["function"]: row for row in world.executions.list(root_id=shared)}
    for names, other in ((teams.ours, teams.theirs), (teams.theirs, teams.ours)):
        row = started[names["function"]]
        claim = world.claim(row)
        below = world.executions.start(
            other["child"], {"w": other["subject"]}, cause="parent", parent=claim.cause
        )
        names["started"], other["below"] = row["id"], below["id"]
        world.finish(claim, result={"w": names["subject"]})
    for names in (teams.ours, teams.theirs):
        world.triggers.pause(names["trigger"], note=names["subject"])
    paused = world.events.emit("order.created", {"n": 2}, subject="another order")
    world.route()
    teams.ours["shared"] = teams.theirs["shared"] = shared
    teams.ours["paused"] = teams.theirs["paused"] = paused
    engine.sources.save(
        "webhook", f"{MARKER}-hook", {"auth": {"type": "github", "secret": f"{MARKER.upper()}_KEY"}}
    )
    teams.theirs["source"] = f"{MARKER}-hook"
    return teams
