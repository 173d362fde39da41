"""From a committed event to firings: exactly one each, whatever happens; and the guards against loops."""

import threading
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound, Unavailable
from functory.engine.events import routing_queue
from functory.engine.executions import root_budget
from functory.engine.executions.claims import Claim
from functory.engine.functions import versions
from functory.triggers import definition
from functory.triggers.analysis.event_explanation import explain

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ORDER = {"type": ["order.created"]}


@pytest.fixture
def shop(world: "World") -> "World":
    """A world in which an order.created runs `work`."""
    world.function("work")
    world.trigger("on-order", "work", ORDER)
    world.route()
    return world


def suppressed(world: "World") -> list[dict[str, Any]]:
    return world.rows(schema.firing, schema.firing.c.decision == "suppressed")


def test_a_match_is_one_firing_and_one_execution_with_lineage(shop):
    event = shop.events.emit("order.created", {"n": 1}, subject="o1")
    assert shop.route() == [("on-order", None)]
    (execution,) = shop.executions.list()
    assert (execution["event_id"], execution["root_id"], execution["depth"], execution["cause"]) == (
        event,
        event,
        1,
        "trigger",
    )
    assert [(link["name"], link["subject"], link["event"]) for link in execution["chain"]] == [
        ("on-order", "o1", event)
    ]
    assert execution["input"]["given"][0]["data"] == {"n": 1}
    assert shop.lineage.firings(event)[0]["execution_id"] == execution["id"]
    assert shop.events.get(event)["state"] == "routed"
    assert shop.route() == []


def test_an_event_that_matches_nothing_is_routed_and_fires_nothing(shop):
    event = shop.events.emit("order.deleted")
    assert shop.route() == []
    assert shop.events.get(event)["state"] == "routed"
    assert (
        explain(shop.events.get(event), shop.triggers.list(), [], shop.clock.now())[0]["decision"]
        == "no match"
    )


def test_chain_and_root_go_along_through_events_triggers_and_calls(shop):
    shop.function("ship")
    shop.trigger("on-work", "ship", {"type": ["execution.succeeded"], "subject": ["work"]})
    root = shop.events.emit("order.created", subject="o1")
    shop.run_all(lambda claim: None)
    shop.route()
    by_function = {e["function"]: e for e in shop.executions.list()}
    ship = by_function["ship"]
    assert (ship["root_id"], ship["depth"]) == (root, 2)
    assert [link["name"] for link in ship["chain"]] == ["on-order", "on-work"]
    told = shop.rows(schema.event, schema.event.c.root_id == root)
    assert {e["root_id"] for e in told} == {root}
    assert all(
        e["depth"] == {None: 0, by_function["work"]["id"]: 1, ship["id"]: 2}[e["cause_execution_id"]]
        for e in told
    )
    (top,) = shop.lineage.tree(ship["id"]).nodes
    assert [(node.kind, node.row.get("function")) for node in top.walk() if node.kind == "execution"] == [
        ("execution", "work"),
        ("execution", "ship"),
    ]
    cause = shop.lineage.cause(ship["id"])
    assert (cause["firing"]["trigger"], cause["event"]["type"]) == ("on-work", "execution.succeeded")


@pytest.mark.parametrize("routers", [2, 4])
def test_routers_at_the_same_time_fire_each_match_exactly_once(make_world, routers):
    worlds = [make_world(batch_size=7) for _ in range(routers)]
    world = worlds[0]
    world.function("work")
    for n in range(3):
        world.trigger(f"t{n}", "work", ORDER)
    for n in range(60):
        world.events.emit("order.created", n, subject=str(n % 5))
    barrier = threading.Barrier(routers)
    failures: list[BaseException] = []

    def route(one: "World") -> None:
        barrier.wait()
        try:
            while one.lineage.open_work()["pending events"]:
                one.router.route_batch()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=route, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    firings, executions = world.rows(schema.firing), world.rows(schema.execution)
    assert len(firings) == len(executions) == 180
    assert len({(f["trigger_id"], f["event_id"]) for f in firings}) == 180
    assert {f["execution_id"] for f in firings} == {e["id"] for e in executions}


@pytest.mark.parametrize("table", [schema.firing, schema.execution], ids=lambda table: table.name)
def test_the_database_itself_refuses_a_second_firing_of_a_match(shop, table):
    shop.events.emit("order.created")
    shop.route()
    (row,) = shop.rows(table)
    with pytest.raises(sa.exc.IntegrityError), shop.database.write() as tx:
        tx.insert(table, [row | {"id": tx.new_id()} if "id" in row else row])


def test_a_paused_trigger_records_what_it_misses(shop):
    shop.triggers.pause("on-order", note="stocktaking")
    shop.events.emit("order.created")
    assert ("on-order", "trigger_paused") in shop.route()
    assert suppressed(shop)[0]["detail"] == "stocktaking"
    shop.triggers.resume("on-order")
    shop.events.emit("order.created")
    assert ("on-order", None) in shop.route()
    assert len(shop.executions.list()) == 1
    assert shop.types("trigger.") == ["trigger.created", "trigger.paused", "trigger.resumed"]


def test_a_change_of_a_trigger_is_seen_by_the_next_batch(shop):
    shop.function("other")
    for change, function in ((lambda: shop.trigger("on-order", "other", ORDER), "other"),
                             (lambda: shop.functions.update("other", metadata={"n": 2}), "other"),
                             (lambda: shop.trigger("on-order", "work", {"type": ["order.paid"]}), None),
                             (lambda: shop.trigger("on-order", "work", ORDER), "work"),
                             (lambda: shop.triggers.delete("on-order"), None),
                             (lambda: shop.trigger("on-order", "work", ORDER), "work")):  # fmt: skip
        change()
        shop.route()
        before = {e["id"] for e in shop.executions.list()}
        shop.events.emit("order.created")
        shop.route()
        assert [e["function"] for e in shop.executions.list() if e["id"] not in before] == (
            [function] if function else []
        )


def test_the_same_definition_makes_no_version(shop):
    told = shop.types()
    assert not shop.trigger("on-order", "work", ORDER)["created"]
    assert shop.types() == told
    assert shop.trigger("on-order", "work", ORDER, when="true")["version"] == 2
    assert [v["number"] for v in shop.triggers.versions("on-order")] == [2, 1]
    with pytest.raises(Conflict, match="you expected version 1, it is 2"):
        shop.triggers.save("on-order", definition.define(on=ORDER, function="work"), expected_version=1)


@pytest.mark.parametrize(("fields", "message"), [
    ({"on": {"type": "order.created"}, "function": "work"}, "(?s)type"),
    ({"on": {"type": [{"colour": 1}]}, "function": "work"}, "colour"),
    ({"on": ORDER, "function": "no name"}, "does not name a function"),
    ({"on": ORDER, "function": "work", "when": "data.("}, "(?s)condition"),
    ({"on": ORDER, "function": "work", "guards": {"max_depth": 100}}, "wrong guard max_depth 100"),
    ({"on": ORDER, "function": "work", "guards": {"speed": 1}}, "unknown fields"),
    ({"on": ORDER, "function": "work", "guards": [1]}, "wrong guards"),
    ({"on": ORDER}, "has no 'function'"),
    ({"function": "work"}, "has no 'on'"),
    ({"on": ORDER, "function": "work", "colour": 1}, "unknown fields of a trigger: colour"),
    ({"event_type": "function_updated"}, "names no function"),
    ({"event_type": ["a"], "trigger_function": "work"}, "wrong event_type"),
    ({"event_type": "a", "trigger_function": "work", "conditions": 5}, "wrong conditions"),
    ({"event_type": "a", "trigger_function": "work", "conditions": {"metadata": 1, "b": 2}}, "wrong conditions"),
    ({"event_type": "a", "trigger_function": "work", "conditions": dict.fromkeys("abcdefg", 1)}, "too many conditions"),
])  # fmt: skip
def test_a_wrong_trigger_is_refused_with_the_part_that_is_wrong(fields, message):
    with pytest.raises(Invalid, match=message):
        definition.parse(fields)


def test_a_trigger_needs_a_proper_name(shop):
    for name in ("", "a b", "a/b", "x" * 300, None, "a\x00"):
        with pytest.raises(Invalid, match="is not a trigger name"):
            shop.triggers.save(name, definition.define(on=ORDER, function="work"))
    with pytest.raises(NotFound):
        shop.triggers.pause("missing")


def test_an_unavailable_function_is_a_suppressed_firing(shop):
    shop.trigger("to-missing", "missing", ORDER)
    shop.trigger("to-version", "work@7", ORDER)
    shop.functions.disable("work")
    shop.events.emit("order.created")
    assert sorted(shop.route()) == [
        (name, "function_unavailable") for name in ("on-order", "to-missing", "to-version")
    ]
    assert sorted(row["detail"] for row in suppressed(shop)) == [
        "function missing does not exist",
        "function work is disabled",
        "function work@7 does not exist",
    ]


def test_an_input_that_cannot_be_made_is_a_suppressed_firing(shop):
    shop.trigger("templated", "work", ORDER, input={"sku": "{{ event.data.sku }}"})
    shop.events.emit("order.created", {"name": "x"})
    assert sorted(shop.route()) == [("on-order", None), ("templated", "input_error")]
    shop.events.emit("order.created", {"sku": 5})
    shop.route()
    assert {"sku": 5} in [e["input"] for e in shop.executions.list()]


def test_a_condition_that_fails_is_a_suppressed_firing_and_a_false_one_is_none(shop):
    shop.trigger("broken", "work", ORDER, when="data.missing.deeper > 3")
    shop.trigger("false", "work", ORDER, when="data.n > 3")
    shop.trigger("true", "work", ORDER, when="data.n < 3")
    shop.events.emit("order.created", {"n": 1})
    assert sorted(shop.route()) == [("broken", "condition_error"), ("on-order", None), ("true", None)]


def test_an_execution_of_a_trigger_does_not_fire_the_same_trigger(world):
    world.function("work")
    world.trigger("self", "work", {"type": ["work.done", "execution.succeeded"]})
    world.start()
    assert world.run_all() == 2
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("own_event", 0, 1)
    assert stopped["detail"] == "its own execution caused this event: self → self"
    assert [link["name"] for link in stopped["chain"]] == ["self"]


def test_a_cycle_of_triggers_is_stopped_at_the_second_visit(world):
    for name in ("ping", "pong"):
        world.function(name)
    world.trigger("to-pong", "pong", {"type": ["execution.succeeded"], "subject": ["ping"]})
    world.trigger("to-ping", "ping", {"type": ["execution.succeeded"], "subject": ["pong"]})
    world.start("ping")
    assert world.run_all() == 3
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("cycle", 1, 2)
    assert stopped["detail"] == "to-pong → to-ping → to-pong"


@pytest.mark.parametrize(("guards", "reason", "runs"), [
    ({"allow_self": True, "max_revisits": 0, "max_depth": 5}, "depth", 5),
    ({"allow_self": True, "max_revisits": 4}, "cycle", 4),
    ({"allow_self": True, "max_revisits": 0}, "depth", 16),
])  # fmt: skip
def test_a_self_trigger_that_is_allowed_runs_exactly_to_its_limit(world, guards, reason, runs):
    world.function("work")
    world.trigger("self", "work", {"type": ["execution.succeeded"]}, guards=guards)
    world.start()
    assert world.run_all() == runs + 1
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == (reason, runs, runs + 1)


@pytest.mark.parametrize("limit", [1, 5, 8])
def test_a_budget_of_n_runs_n_and_suppresses_the_next(make_world, limit):
    world = make_world(root_budget=limit)
    world.function("work")
    world.trigger("fan", "work", {"type": ["bomb"]})
    claim = world.claim(world.start())
    for n in range(limit + 1):
        world.events.emit("bomb", n, cause=claim.cause, subject=str(n))
    world.finish(claim)
    assert sorted(world.route(), key=str) == sorted([("fan", None)] * limit + [("fan", "budget")], key=str)
    (stopped,) = suppressed(world)
    assert (stopped["limit_value"], stopped["actual_value"]) == (limit, limit + 1)
    assert len(world.executions.list(root_id=claim.id)) == limit + 1
    assert world.lineage.tree(claim.id).budget == (limit, limit)


def test_a_budget_shared_by_routers_is_exact(make_world):
    worlds = [make_world(root_budget=20, batch_size=3) for _ in range(2)]
    worlds[0].function("work")
    worlds[0].trigger("fan", "work", {"type": ["bomb"]})
    claim = worlds[0].claim(worlds[0].start())
    for n in range(50):
        worlds[0].events.emit("bomb", cause=claim.cause, subject=str(n))

    def route(one: "World") -> None:
        while one.lineage.open_work()["pending events"]:
            one.router.route_batch()

    threads = [threading.Thread(target=route, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f["decision"] for f in worlds[0].rows(schema.firing)].count("fired") == 20
    assert [row["reason"] for row in suppressed(worlds[0])] == ["budget"] * 30


def test_a_router_that_locks_a_budget_sees_what_the_one_before_spent(make_world):
    one, two = make_world(), make_world()
    root = one.events.emit("order.created")
    seen: list[tuple[int, int]] = []

    def take(world: "World") -> None:
        with world.database.write() as tx:
            seen.append(root_budget.lock(tx, [root], 20)[root])
            root_budget.spend(tx, {root: 5})

    take(one)
    with one.database.write() as tx:
        seen.append(root_budget.lock(tx, [root], 20)[root])
        other = threading.Thread(target=take, args=(two,))
        other.start()
        # It cannot end before this transaction does; an instant is left to it to try.
        other.join(0.2)
        root_budget.spend(tx, {root: 2})
    other.join()
    assert seen == [(0, 20), (5, 20), (7, 20)]


def test_a_guard_that_refuses_is_reported_and_the_report_starts_nothing(world):
    world.function("work")
    world.function("alarm")
    world.trigger("self", "work", {"type": ["execution.succeeded"], "subject": ["work"]})
    world.trigger("on-suppressed", "alarm", {"type": ["trigger.suppressed"]})
    world.trigger(
        "on-anything",
        "alarm",
        {"source": [{"prefix": "/functory/triggers/"}], "type": [{"prefix": "trigger.s"}]},
    )
    world.start()
    world.run_all()
    (told,) = world.rows(schema.event, schema.event.c.type == "trigger.suppressed")
    assert told["data"] | {"event_id": ""} == {
        "trigger": "self",
        "version": 1,
        "event_id": "",
        "reason": "own_event",
        "limit": 0,
        "value": 1,
        "chain": ["self", "self"],
        "detail": "its own execution caused this event: self → self",
    }
    assert told["state"] == "routed"
    assert world.executions.list(function="alarm") == []
    assert told["cause_execution_id"] in {e["id"] for e in world.executions.list(function="work")}


class Poison(Exception):
    pass


@pytest.mark.parametrize("kind", [Poison, Invalid, RecursionError])
def test_a_poison_event_is_set_aside_and_the_others_flow(shop, monkeypatch, kind):
    real = shop.router.decide

    def decide(row: dict[str, Any], now: Any) -> Any:
        if row["data"] == "poison":
            raise kind("poison")
        return real(row, now)

    monkeypatch.setattr(shop.router, "decide", decide)
    events = [shop.events.emit("order.created", data) for data in ("a", "poison", "b")]
    for attempt in range(1, 6):
        done = shop.router.route_batch()
        assert done.events == (2 if attempt == 1 else 0)
        poisoned = shop.events.get(events[1])
        assert (poisoned["route_attempts"], poisoned["state"]) == (
            attempt,
            "quarantined" if attempt == 5 else "pending",
        )
        assert kind.__name__ in poisoned["problem"]
        assert shop.router.route_batch().failed == [], "it waits"
        shop.events.emit("order.created", f"after {attempt}")
        assert shop.router.route_batch().events == 1
        shop.advance(2**attempt)
    assert len(shop.executions.list()) == 2 + 5
    shop.advance(10_000)
    assert shop.router.route_batch().events == 0

    monkeypatch.undo()
    shop.events.release(events[1])
    with pytest.raises(NotFound, match="no quarantined event"):
        shop.events.release(events[1])
    assert shop.route() == [("on-order", None)]
    assert shop.events.get(events[1])["problem"] is None


def test_an_event_that_cannot_be_read_is_set_aside_and_the_others_flow(shop):
    events = [shop.events.emit("order.created", n) for n in range(3)]
    with shop.database.write() as tx:
        tx.execute(
            sa.update(schema.event)
            .where(schema.event.c.id == events[1])
            .values(data=sa.literal_column("'{broken'"))
        )
    shop.router.route_batch()
    assert sorted(e["event_id"] for e in shop.executions.list()) == [events[0], events[2]]


def test_a_database_that_is_away_is_no_fault_of_an_event(shop, monkeypatch):
    def away(*_: Any) -> None:
        raise Unavailable("the database cannot be used")

    event = shop.events.emit("order.created")
    monkeypatch.setattr(shop.router, "decide", away)
    with pytest.raises(Unavailable):
        shop.router.route_batch()
    assert (shop.events.get(event)["route_attempts"], shop.events.get(event)["state"]) == (0, "pending")


def test_a_batch_that_fails_while_it_is_written_leaves_no_half(shop, monkeypatch):
    real, calls = routing_queue.mark_routed, []

    def breaks(tx: Any, ids: Any) -> None:
        calls.append(ids)
        if len(calls) == 1:
            raise Poison
        real(tx, ids)

    monkeypatch.setattr(routing_queue, "mark_routed", breaks)
    for n in range(4):
        shop.events.emit("order.created", n)
    assert shop.router.route_batch().events == 4
    assert [len(ids) for ids in calls] == [4, 1, 1, 1, 1]
    assert len(shop.executions.list()) == len(shop.rows(schema.firing)) == 4


def test_a_stored_trigger_that_no_longer_compiles_does_not_stop_the_others(shop):
    broken = shop.trigger("broken", "work", {"type": ["order.created"], "subject": ["x"]})
    with shop.database.write() as tx:
        tx.execute(
            sa.update(schema.trigger_version)
            .where(schema.trigger_version.c.trigger_id == broken["id"])
            .values(definition={"on": {"type": [{"colour": 1}]}})
        )
    shop.events.emit("order.created", subject="x")
    assert shop.route() == [("on-order", None)]


def test_the_functions_of_more_matches_than_sqlite_takes_in_one_expression_are_found(shop):
    wanted = [("work", None), ("work", 1), *((f"missing{n}", None) for n in range(1500))]
    with shop.database.read() as tx:
        assert set(versions.load_many(tx, wanted)) == {("work", None), ("work", 1)}


def test_an_output_pattern_that_matches_is_an_event_of_its_own_in_the_same_transaction(world):
    world.function(
        "work", output_patterns={"low": {"stock": [{"numeric": ["<", 5]}]}, "named": "sku=(?P<sku>[A-Z]+)"}
    )
    world.function("reorder")
    world.trigger(
        "on-low",
        "reorder",
        {"type": ["output.matched"], "data": {"pattern": ["low"]}},
        input={"n": "{{ event.data.output.stock }}"},
    )
    world.finish(world.claim(world.start()), result={"stock": 2})
    world.finish(world.claim(world.start()), result={"stock": 7})
    world.finish(world.claim(world.start()), result="\ud800 sku=AB")
    matched = [e["data"] for e in world.rows(schema.event, schema.event.c.type == "output.matched")]
    assert [(d["pattern"], d["groups"], d["output"]) for d in matched] == [
        ("low", {}, {"stock": 2}),
        ("named", {"sku": "AB"}, "\ud800 sku=AB"),
    ]
    world.route()
    assert [e["input"] for e in world.executions.list(function="reorder")] == [{"n": 2}]


def test_both_spellings_of_a_trigger_fire_on_the_same_event(world):
    world.function("validate", parameters="event")
    world.triggers.save(
        "one",
        definition.parse(
            {
                "event_type": "function_updated",
                "target_function": "parse",
                "trigger_function": "validate",
                "conditions": {"auto_validate": True},
            }
        ),
    )
    world.triggers.save(
        "two",
        definition.parse(
            {
                "on": {
                    "type": ["function.updated"],
                    "subject": ["parse"],
                    "data": {"metadata": {"auto_validate": [True]}},
                },
                "function": "validate",
            }
        ),
    )
    world.function("parse", metadata={"auto_validate": True})
    world.function("other", metadata={"auto_validate": True})
    world.functions.update("other", metadata={"auto_validate": True, "n": 1})
    assert world.route() == []
    world.functions.update("parse", metadata={"auto_validate": False})
    assert world.route() == []
    world.functions.update("parse", metadata={"auto_validate": True})
    assert sorted(world.route()) == [("one", None), ("two", None)]
    assert [list(e["input"]) for e in world.executions.list()] == [["event"]] * 2


@pytest.mark.parametrize("spelling", ["function_executed", "execution_succeeded", "execution.succeeded"])
def test_babyagi_s_spelling_passes_the_output_as_first_argument(world, spelling):
    world.function("make")
    world.function("use", parameters="output, rest=None")
    world.triggers.save(
        "t", definition.parse({"event_type": spelling, "target_function": "make", "trigger_function": "use"})
    )
    world.finish(world.claim(world.start("make")), result=[1, 2])
    world.route()
    assert [e["input"] for e in world.executions.list(function="use")] == [{"output": [1, 2]}]


def test_the_same_event_key_is_one_event(shop):
    first = shop.events.emit("order.created", dedup_key="k")
    assert shop.events.emit("order.created", {"other": 1}, dedup_key="k") == first
    assert shop.route() == [("on-order", None)]


def test_totals_and_open_work_count_what_there_is(shop):
    shop.events.emit("order.created")
    assert shop.lineage.open_work()["pending events"] == 1
    shop.run_all(lambda claim: None)
    assert shop.lineage.totals()["executions succeeded"] == 1
    assert shop.lineage.totals()["firings fired"] == 1


def test_claims_know_their_chain(shop):
    seen: list[Claim] = []
    shop.events.emit("order.created")
    shop.route()
    shop.work(seen.append)
    assert [link["name"] for link in seen[0].cause.chain] == ["on-order"]
