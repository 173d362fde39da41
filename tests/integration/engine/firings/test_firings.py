"""From a committed event to firings: exactly one each, whatever happens."""

import threading
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.executions.claims import Claim
from functory.engine.firings import kill_switch
from functory.engine.functions import versions
from functory.triggers.analysis.event_explanation import explain

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.orders import ORDER, suppressed

pytest_plugins = ["tests.support.world"]


def test_a_match_is_one_firing_and_one_execution_with_lineage(shop):
    event = shop.events.emit("order.created", {"n": 1}, subject="o1")
    assert shop.route() == [("on-order", None)]
    (execution,) = shop.executions.list(payloads=True)
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
    caused = shop.rows(schema.event, schema.event.c.root_id == root)
    assert {e["root_id"] for e in caused} == {root}
    assert all(
        e["depth"] == {None: 0, by_function["work"]["id"]: 1, ship["id"]: 2}[e["cause_execution_id"]]
        for e in caused
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


def test_the_functions_of_more_matches_than_sqlite_takes_in_one_expression_are_found(shop):
    wanted = [("work", None), ("work", 1), *((f"missing{n}", None) for n in range(1500))]
    with shop.database.read() as tx:
        assert set(versions.load_many(tx, wanted)) == {("work", None), ("work", 1)}


@pytest.mark.parametrize("reference", ["work", "work@1"])
def test_a_router_that_knows_a_function_sees_each_change_of_it(world, reference):
    def started() -> tuple[str, int]:
        world.events.emit("order.created")
        ((_, reason),) = [one for one in world.route() if one[0] == "on-order"]
        newest = world.rows(schema.execution)[-1]
        return reason or f"v{newest['version']}", newest["priority"]

    pinned = "@" in reference
    world.function("work")
    world.trigger("on-order", reference, {"type": ["order.created"]})
    assert started() == started() == ("v1", 0)
    world.function("work", limits={"priority": 7})
    assert started() == (("v1", 0) if pinned else ("v2", 7))
    world.functions.disable("work")
    assert started()[0] == "function_unavailable"
    world.functions.activate("work", 1)
    assert started() == ("v1", 0)
    world.functions.delete("work", force=True)
    assert started()[0] == "function_unavailable"
    world.function("work", "event, more=None")
    assert started()[0] == ("v1" if pinned else "v3")


def test_a_change_that_another_process_commits_meanwhile_is_seen_by_the_next_batch(make_world):
    world, other = make_world(), make_world()
    world.function("work")
    world.trigger("on-order", "work", {"type": ["order.created"]})
    for version in (1, 2, 3):
        world.events.emit("order.created")
        assert ("on-order", None) in world.route()
        assert [row["version"] for row in world.rows(schema.execution)][-1] == version
        other.function("work", f"*given, v{version}=None, **named")


def test_a_kill_switch_that_is_thrown_between_two_batches_stops_a_router(shop):
    shop.events.emit("order.created")
    assert ("on-order", None) in shop.route()
    switches = kill_switch.Switches(shop.database)
    switches.throw("triggers")
    shop.events.emit("order.created")
    assert shop.route() == []
    switches.release("triggers")
    assert ("on-order", None) in shop.route()


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
    assert [e["input"] for e in world.executions.list(function="reorder", payloads=True)] == [{"n": 2}]


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
