"""The end of a parent without success takes its open children along; a cancel of a tree takes all below."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from functory.engine.database import schema
from functory.engine.errors import Conflict, NotFound, Stale
from functory.engine.executions.claims import Claim
from functory.engine.maintenance import canceller, invariants, lost_workers
from tests.support import flow
from tests.support.state_rules import LEASE, check
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

RETRY = 60


@pytest.fixture
def ready(world: World) -> Iterator[World]:
    world.function("work", limits={"retries": 1, "retry_delay": RETRY})
    yield world
    check(world)
    assert [one for one in invariants.verify(world.database, world.settings) if one.count] == []


def go_down(world: World) -> None:
    """Let all open cancels reach what they can reach."""
    while canceller.advance(world.database)[0]:
        pass


def child(world: World, parent: Claim, **options: object) -> str:
    return world.start(parent=parent.cause, **options)["id"]


def claim(world: World, id_: str) -> Claim:
    return world.claim({"id": id_})


def state(world: World, id_: str) -> str:
    return world.executions.get(id_)["state"]


def by_request(world: World, parent: Claim) -> None:
    world.executions.cancel(parent.id, author="ada")
    world.finish(parent, "cancelled")


def by_request_between_two_attempts(world: World, parent: Claim) -> None:
    assert world.finish(parent, "crashed").state == "queued"
    world.executions.cancel(parent.id, author="ada")


def by_request_while_an_attempt_fails(world: World, parent: Claim) -> None:
    world.executions.cancel(parent.id, author="ada")
    assert world.finish(parent, "crashed").state == "cancelled"


def by_request_that_the_worker_ignores(world: World, parent: Claim) -> None:
    world.executions.cancel(parent.id, author="ada")
    world.advance(LEASE / 2)
    assert lost_workers.reap(world.database, cancel_grace=LEASE / 4)["cancelled"] == 1


def by_failure(world: World, parent: Claim) -> None:
    assert world.finish(parent, "failed", retryable=False).state == "failed"


def by_timeout(world: World, parent: Claim) -> None:
    assert world.finish(parent, "timed_out", retryable=False).state == "timed_out"


def by_crash(world: World, parent: Claim) -> None:
    assert world.finish(parent, "crashed", retryable=False).state == "dead"


WAYS = [
    by_request,
    by_request_between_two_attempts,
    by_request_while_an_attempt_fails,
    by_request_that_the_worker_ignores,
    by_failure,
    by_timeout,
    by_crash,
]


@dataclass(frozen=True)
class Family:
    """A running parent's children, by what they were doing; ``running`` is the claim of the one that runs."""

    ids: dict[str, str]
    running: Claim


def family(world: World, parent: Claim) -> Family:
    running, retrying = claim(world, child(world, parent)), claim(world, child(world, parent))
    ids = {
        "running": running.id,
        "below running": child(world, running),
        "retrying": retrying.id,
        "below retrying": child(world, retrying),
        "queued": child(world, parent),
        "delayed": child(world, parent, delay=3600),
        "abandoned": child(world, parent, abandon=True),
        "succeeded": child(world, parent),
        "failed": child(world, parent),
    }
    assert world.finish(retrying, "failed").state == "queued"
    world.finish(claim(world, ids["succeeded"]))
    world.finish(claim(world, ids["failed"]), "failed", retryable=False)
    return Family(ids, running)


@pytest.mark.parametrize("end", WAYS)
def test_a_parent_takes_its_open_children_along(ready: World, end: Callable[[World, Claim], None]) -> None:
    parent = claim(ready, ready.start()["id"])
    found = family(ready, parent)
    end(ready, parent)
    go_down(ready)
    expected = {
        "running": "running",
        "below running": "queued",
        "retrying": "cancelled",
        "below retrying": "cancelled",
        "queued": "cancelled",
        "delayed": "cancelled",
        "abandoned": "queued",
        "succeeded": "succeeded",
        "failed": "failed",
    }
    assert {name: state(ready, id_) for name, id_ in found.ids.items()} == expected
    key = found.running.id, found.running.fence
    assert ready.worker.lease_status([key]).cancel_requested == {key}
    ready.finish(found.running, "cancelled")
    go_down(ready)
    assert state(ready, found.ids["below running"]) == "cancelled"
    by = {name: ready.executions.get(id_)["cancelled_by"] for name, id_ in found.ids.items()}
    assert by == dict.fromkeys(("abandoned", "succeeded", "failed")) | dict.fromkeys(
        ("running", "retrying", "queued", "delayed"), f"execution {parent.id}"
    ) | {
        "below running": f"execution {found.ids['running']}",
        "below retrying": f"execution {found.ids['retrying']}",
    }
    assert ready.rows(schema.open_cancel) == []


def test_a_parent_whose_leases_were_lost_takes_its_children_along(ready: World) -> None:
    parent = claim(ready, ready.start()["id"])
    below = child(ready, parent)
    while state(ready, parent.id) == "running":
        ready.advance(LEASE + 1)
        lost_workers.reap(ready.database, cancel_grace=LEASE)
        go_down(ready)
        if state(ready, parent.id) == "queued":
            assert state(ready, below) == "queued", "another attempt may need it"
            claim(ready, parent.id)
    assert (state(ready, parent.id), state(ready, below)) == ("dead", "cancelled")


@pytest.mark.parametrize(
    "rule", [{"overlap": "cancel_other"}, {"overlap": "terminate_other"}, {"cancel_on": [{"on": flow.TICK}]}]
)
def test_flow_control_that_cancels_a_parent_reaches_its_children(ready: World, rule: dict) -> None:  # type: ignore[type-arg]
    flow.trigger(ready, **rule)
    flow.emit(ready, 1)
    flow.settle(ready)
    (parent,) = flow.claim(ready)
    below = child(ready, parent)
    flow.emit(ready, 2)
    flow.settle(ready)
    ready.finish(parent, "cancelled")
    go_down(ready)
    assert state(ready, below) == "cancelled"
    assert ready.executions.get(parent.id)["cancelled_by"].startswith("trigger t, by event ")


def test_an_attempt_that_is_tried_again_keeps_its_children(ready: World) -> None:
    parent = claim(ready, ready.start()["id"])
    below = child(ready, parent, step_key="a call")
    assert ready.finish(parent, "failed").state == "queued"
    go_down(ready)
    ready.advance(RETRY)
    again = claim(ready, parent.id)
    assert child(ready, again, step_key="a call") == below
    ready.finish(again)
    go_down(ready)
    assert state(ready, below) == "queued", "a parent that succeeded has not waited for it"


def test_a_parent_that_is_asked_to_stop_may_start_a_child_which_ends_with_it(ready: World) -> None:
    parent = claim(ready, ready.start()["id"])
    ready.executions.cancel(parent.id)
    late = child(ready, parent)
    go_down(ready)
    ready.finish(parent, "cancelled")
    with pytest.raises(Stale):
        child(ready, parent)
    go_down(ready)
    assert state(ready, late) == "cancelled"


def test_a_child_that_ends_before_the_cancel_reaches_it_stays_as_it_ended(ready: World) -> None:
    parent = claim(ready, ready.start()["id"])
    running = claim(ready, child(ready, parent))
    by_request(ready, parent)
    ready.finish(running, result=7)
    go_down(ready)
    row = ready.executions.get(running.id)
    assert (row["state"], row["result"], row["cancelled_by"]) == ("succeeded", 7, None)


def test_many_children_are_reached_a_page_in_each_transaction_and_after_a_crash(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = claim(ready, ready.start()["id"])
    ids = [child(ready, parent) for _ in range(2 * canceller.PAGE + 1)]
    by_request(ready, parent)

    def cancelled() -> int:
        return sum(
            row["state"] == "cancelled" for row in ready.executions.list(parent_id=parent.id, limit=1000)
        )

    assert cancelled() == 0
    assert canceller.advance(ready.database) == (True, False) and cancelled() == canceller.PAGE
    with monkeypatch.context() as broken, pytest.raises(RuntimeError):
        broken.setattr(canceller, "cancel_locked", _fail)
        canceller.advance(ready.database)
    assert cancelled() == canceller.PAGE
    go_down(ready)
    assert cancelled() == len(ids)


def _fail(*_: object) -> None:
    raise RuntimeError


def test_an_end_costs_one_statement_for_its_children_and_a_success_none(ready: World) -> None:
    def of_children(outcome: str) -> int:
        parent = claim(ready, ready.start()["id"])
        with ready.statements() as sent:
            ready.finish(parent, outcome, retryable=False)
        return sum("open_cancel" in statement for statement in sent)

    assert (of_children("succeeded"), of_children("failed")) == (0, 1)


def tree_of_all(world: World) -> tuple[Claim, Claim, dict[str, str]]:
    """A running execution below another one, and what it has caused in each way. Returns it, the running one that its
    event has started, and the ids.
    """
    world.trigger("on-made", "work", {"type": ["made"]})
    world.trigger("on-cancel", "work", {"type": ["execution.cancelled"]})
    top = claim(world, world.start()["id"])
    target = claim(world, child(world, top))
    done = claim(world, child(world, target))
    ids = {"abandoned": child(world, target, abandon=True), "below done": child(world, done)}
    world.finish(done)
    world.events.emit("made", cause=target.cause)
    world.route()
    (fired,) = world.rows(schema.execution, schema.execution.c.cause == "trigger")
    running = claim(world, fired["id"])
    ids |= {"triggered": running.id, "below triggered": child(world, running, abandon=True)}
    ids |= {"beside": child(world, top), "top": top.id}
    return target, running, ids


def test_a_cancel_of_a_tree_reaches_everything_below_and_nothing_beside(ready: World) -> None:
    target, _, ids = tree_of_all(ready)
    ready.executions.cancel(target.id, tree=True, author="ada")
    go_down(ready)
    assert {name: state(ready, id_) for name, id_ in ids.items()} == {
        "abandoned": "cancelled",
        "below done": "cancelled",
        "triggered": "running",
        "below triggered": "cancelled",
        "beside": "queued",
        "top": "running",
    }
    assert ready.executions.get(ids["triggered"])["cancelled_by"] == "ada"
    assert ready.executions.get(ids["below triggered"])["cancelled_by"] == "ada"


def test_a_cancel_of_a_tree_waits_for_what_still_runs_and_for_events_that_are_not_routed(
    ready: World,
) -> None:
    target, running, _ = tree_of_all(ready)
    ready.events.emit("made", cause=target.cause)
    ready.executions.cancel(target.id, tree=True, author="ada")
    go_down(ready)
    assert len(ready.rows(schema.open_cancel)) >= 1
    ready.route()
    go_down(ready)
    late = ready.rows(schema.execution, schema.execution.c.cause == "trigger")
    assert [row["cancelled_by"] for row in late if row["chain"][-1]["name"] == "on-made"] == ["ada", "ada"]
    ready.finish(target, "cancelled")
    ready.finish(running, "cancelled")
    ready.route()
    go_down(ready)
    assert ready.rows(schema.open_cancel) == []
    cleaning = ready.rows(schema.execution, schema.execution.c.cause == "trigger")
    assert {row["state"] for row in cleaning if row["chain"][-1]["name"] == "on-cancel"} == {"queued"}


def test_a_cancel_of_a_tree_whose_execution_has_ended_reaches_what_it_left(ready: World) -> None:
    target, _, ids = tree_of_all(ready)
    ready.finish(target)
    with pytest.raises(Conflict, match="--tree"):
        ready.executions.cancel(target.id)
    ready.executions.cancel(target.id, tree=True)
    go_down(ready)
    assert state(ready, target.id) == "succeeded" and state(ready, ids["abandoned"]) == "cancelled"
    with pytest.raises(NotFound):
        ready.executions.cancel("0" * 32, tree=True)
