"""The backlog stays in the database: fair between functions, patient with messages, cheap at any length."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.executions import queue_rows, ready_queue, worker_registry
from functory.engine.executions.dispatch_window import PER_SLOT, REFILL_SECONDS, DispatchWindow
from tests.support.queue_places import place_of
from tests.support.sending import send_due

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def ready(world: World) -> World:
    for name in ("big", "small", "tiny"):
        world.function(name)
    return world


class Broker:
    """Counts what is sent; ``window`` reads everything in every round."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.options = {"redispatch": 5.0, "worker_ttl": 1e9, "limit": 500} | options
        self.window = DispatchWindow(0.0)
        self.sent: list[str] = []

    def dispatch(self, **options: Any) -> list[str]:
        before = len(self.sent)
        given: Any = self.options | options
        send_due(self.world.database, self.sent.extend, window=self.window, **given)
        return self.sent[before:]


def of(world: World, ids: list[str]) -> list[str]:
    """The functions of executions."""
    return [world.executions.get(id_)["function"] for id_ in ids]


def test_a_long_queue_of_one_function_does_not_stand_before_another(ready: World) -> None:
    big = [ready.start("big")["id"] for _ in range(40)]
    small = [ready.start("small")["id"] for _ in range(3)]
    (tiny,) = [ready.start("tiny")["id"] for _ in range(1)]
    broker = Broker(ready)
    assert broker.dispatch(limit=8) == [big[0], small[0], tiny, big[1], small[1], big[2], small[2]]
    assert broker.window.seconds_until_next_round(ready.clock.now()) == REFILL_SECONDS, (
        "one place belonged to no share"
    )
    # By now three of each are in flight, and one of tiny.
    assert of(ready, broker.dispatch(limit=4)) == ["big"] * 4


def test_higher_priorities_leave_nothing_to_lower_ones(ready: World) -> None:
    low = [ready.start("tiny")["id"] for _ in range(3)]
    high = [ready.start("big", priority=5)["id"] for _ in range(6)]
    middle = [ready.start("small", priority=1)["id"] for _ in range(6)]
    broker = Broker(ready)
    assert broker.dispatch(limit=8) == [*high, *middle[:2]]
    assert broker.dispatch(limit=8) == [*middle[2:], *low]


def test_a_claim_without_messages_has_the_same_order(ready: World) -> None:
    big = [ready.start("big")["id"] for _ in range(10)]
    small = [ready.start("small", priority=0)["id"] for _ in range(2)]
    urgent = ready.start("big", priority=9)["id"]
    claims = ready.worker.claim_any(4)
    # The urgent one of big is running, so small has fewer in flight.
    assert [claim.id for claim in claims] == [urgent, small[0], big[0], small[1]]
    assert [claim.id for claim in ready.worker.claim_any(2)] == big[1:3]


def test_what_is_not_due_or_waits_for_a_place_is_no_backlog(ready: World) -> None:
    ready.start("big", delay=30)
    with ready.database.write() as tx:
        tx.execute(sa.update(schema.backlog).values(waiting_for_slot=False))
    broker = Broker(ready)
    assert broker.dispatch() == []
    assert broker.window.seconds_until_next_round(ready.clock.now()) == pytest.approx(30)
    ready.advance(30)
    assert len(broker.dispatch()) == 1


def test_a_long_wait_sends_nothing_twice_as_long_as_all_slots_are_busy(ready: World) -> None:
    worker_registry.record_heartbeat(ready.database, "worker", 2, "none")
    ids = [ready.start("big")["id"] for _ in range(30)]
    broker = Broker(ready)
    broker.dispatch()
    assert len(broker.sent) == 2 * PER_SLOT, "the rest stays in the database"
    running = ready.worker.claim(broker.sent[:2])
    for _ in range(13):
        # Each takes ten seconds, twice the redispatch time.
        for _ in range(10):
            ready.advance(1)
            broker.dispatch()
        for claim in running:
            ready.finish(claim)
        running = ready.worker.claim(
            [id_ for id_ in broker.sent if ready.executions.get(id_)["state"] == "queued"][:2]
        )
    assert set(Counter(broker.sent).values()) == {1}
    assert set(broker.sent) <= set(ids)


def test_a_full_window_is_not_filled_in_small_pieces_and_few_executions_do_not_wait_for_that(
    ready: World,
) -> None:
    worker_registry.record_heartbeat(ready.database, "worker", 2, "none")
    broker = Broker(ready, redispatch=1e9)

    def later() -> list[str]:
        # So long after the last round that the window is the smallest.
        ready.advance(1)
        return broker.dispatch()

    ids = [ready.start("big")["id"] for _ in range(9)]
    assert len(later()) == 8
    ready.worker.claim(broker.sent[:1])
    assert later() == ids[8:], "it fits"
    for _ in range(9):
        ready.start("big")
    ready.worker.claim(broker.sent[1:2])
    assert later() == [], "one place of eight"
    assert broker.window.seconds_until_next_round(ready.clock.now()) == REFILL_SECONDS
    ready.worker.claim(broker.sent[2:3])
    assert len(later()) == 2


def test_a_lost_message_is_sent_again_later_where_others_wait_long(ready: World) -> None:
    broker = Broker(ready, limit=10)
    for _ in range(20):
        row = ready.start("big")
        broker.dispatch()
        ready.advance(4)
        claim = ready.claim(row)
        assert claim.queued_seconds == pytest.approx(4)
        ready.finish(claim)
    assert [round(row["queued_seconds"]) for row in ready.rows(schema.attempt)] == [4] * 20
    lost = ready.start("big")["id"]
    broker.sent.clear()
    for _ in range(2):
        broker.dispatch()
        ready.advance(11)
    assert broker.sent == [lost], "three times what others wait is twelve seconds, not five"
    broker.dispatch()
    assert broker.sent == [lost, lost]


def test_what_was_claimed_by_itself_has_waited_for_no_message(ready: World) -> None:
    ready.start("big")
    (claim,) = ready.worker.claim_any(1)
    assert claim.queued_seconds is None
    assert ready.rows(schema.attempt)[0]["queued_seconds"] is None


def test_a_worker_claims_only_what_has_waited_long_enough_for_a_message(ready: World) -> None:
    sent, unsent = (ready.start("big")["id"] for _ in range(2))
    with ready.database.write() as tx:
        queue_rows.mark_sent(tx, [sent])
    assert not ready.worker.any_due(waited=2)
    assert ready.worker.claim_any(5, waited=2) == []
    ready.advance(2)
    assert ready.worker.any_due(waited=2)
    assert [claim.id for claim in ready.worker.claim_any(5, waited=2)] == [sent, unsent]


def test_a_sending_counts_anew_for_every_claim(ready: World) -> None:
    row = ready.start("big")
    broker = Broker(ready)
    broker.dispatch()
    ready.advance(6)
    broker.dispatch()
    assert place_of(ready.database, row["id"])["dispatch_count"] == 2
    claim = ready.claim(row)
    ready.worker.release([(claim.id, claim.fence)])
    found = place_of(ready.database, row["id"])
    assert (found["queue"], found["dispatch_count"], found["dispatched_at"]) == ("backlog", 0, None)


def test_the_questions_of_idle_and_of_full_rounds_are_few(ready: World) -> None:
    broker = Broker(ready)
    broker.window = DispatchWindow(1e9)
    broker.dispatch()
    with ready.statements() as sent:
        broker.dispatch()
    assert len(sent) == 2
    with ready.statements() as sent:
        assert not ready.worker.any_due(waited=2)
    assert len(sent) == 1
    for _ in range(20):
        ready.start("big")
        ready.start("small")
    with ready.statements() as sent:
        broker.dispatch(limit=1)
    assert len(sent) <= 7
    with ready.statements() as sent:
        ready.worker.claim_any(1)
    # As many, with in_flight of its own, and the four of a claim.
    assert len(sent) <= 11


def test_every_question_about_the_backlog_goes_through_its_indexes(ready: World) -> None:
    for _ in range(3):
        ready.start("big")
    with ready.statements() as sent:
        Broker(ready).dispatch(limit=1)
        ready.worker.any_due(waited=2)
    with ready.database.read() as tx:
        if ready.dialect == "postgresql":
            tx.execute(sa.text("SET LOCAL enable_seqscan = off"))
        flight = ready_queue.in_flight(tx)
    assert flight.dispatched == 1
    if ready.dialect == "sqlite":
        asked = [
            text
            for text in sent
            if "FROM backlog" in text and text.startswith(("SELECT", "WITH", "\nWITH", "\nSELECT"))
        ]
        assert len(asked) >= 4
        with ready.database.connection() as connection:
            for text in asked:
                plan = connection.exec_driver_sql(
                    f"EXPLAIN QUERY PLAN {text}", (None,) * text.count("?")
                ).all()
                said = " / ".join(str(row[3]) for row in plan)
                steps = [str(row[3]) for row in plan if " backlog" in str(row[3])]
                assert steps and all(
                    any(f"ix_backlog_{name}" in step for name in ("due", "ready")) for step in steps
                ), f"{said}\n{text}"
