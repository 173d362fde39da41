"""What metrics count: each end of a call once, by state; refused calls by their limit; unknown calls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.agents import call_queue
from functory.engine.database.schema import gateway, llm_call
from functory.engine.maintenance.lost_calls import LostCalls
from functory.engine.telemetry.registry import registry
from tests.support.model_server import ModelServer, error, model_server
from tests.support.models import ModelsWorld
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: ModelServer) -> Iterator[ModelsWorld]:
    made = ModelsWorld(f"sqlite:///{tmp_path}/rows.db", tmp_path, server)
    yield made
    made.close()


def count(name: str, **labels: str) -> float:
    return registry.get_sample_value(f"functory_{name}_total", labels) or 0.0


def test_each_end_is_counted_once_with_its_cost(world: ModelsWorld, server: ModelServer) -> None:
    server.script("flaky-count", error(503, "overloaded"), "at last")
    server.script("wrong-count", error(400, "bad"))
    for name in ("flaky-count", "wrong-count"):
        world.add_model(name)
    with world.gateway():
        assert world.answered(model="flaky-count")["state"] == "succeeded"
        assert world.answered(model="wrong-count", number=2)["state"] == "failed"
        wait_for(lambda: count("llm_calls", model="wrong-count", state="failed"), "the count")
    assert count("llm_calls", model="flaky-count", state="succeeded") == 1
    assert count("llm_calls", model="wrong-count", state="failed") == 1
    assert count("llm_tries", model="flaky-count", outcome="retry") == 1
    assert count("llm_tries", model="flaky-count", outcome="answered") == 1
    assert count("llm_cost_dollars", model="flaky-count") == pytest.approx(2e-5)


def test_a_refused_call_is_counted_by_its_limit_without_the_name_of_a_user(world: ModelsWorld) -> None:
    world.add_model("refused-count")
    before = {whose: count("llm_refused", limit="usd", whose=whose) for whose in ("tree", "all")}
    with world.gateway():
        world.ask(model="refused-count")
        world.budgets.raise_tree(world.root, {"usd": 0}, author="ada")
        assert world.answered(model="refused-count", number=2)["state"] == "refused"
        world.budgets.set_quota("all", "", {"usd": 0}, author="ada")
        assert world.answered(model="refused-count", root=world.calls.new_root())["state"] == "refused"
        wait_for(lambda: count("llm_refused", limit="usd", whose="all") - before["all"] == 1, "the count")
    assert count("llm_refused", limit="usd", whose="tree") - before["tree"] >= 1
    assert count("llm_calls", model="refused-count", state="refused") >= 2


def test_the_calls_of_a_gateway_that_is_gone_are_counted_as_unknown_with_their_most(
    world: ModelsWorld,
) -> None:
    world.add_model("lost-count")
    row = world.ask(model="lost-count")
    with world.database.write() as tx:
        call_queue.renew(tx, "gone:1", tx.now, [])
        (sent,) = call_queue.claim(tx, "gone:1", 10, world.settings).sent
        past = tx.now - timedelta(minutes=1)
        tx.execute(sa.update(llm_call).where(llm_call.c.id == row["id"]).values(lease_until=past))
    LostCalls(world.database, world.settings).run_once()
    assert count("llm_calls", model="lost-count", state="unknown") == 1
    reserved = sent.row["reserved"] / 1e9
    assert count("llm_cost_dollars", model="lost-count") == pytest.approx(reserved) and reserved > 0


def test_calls_that_no_gateway_will_send_are_counted_as_failed(world: ModelsWorld) -> None:
    world.add_model("unclaimed-count")
    row = world.ask(model="unclaimed-count")
    with world.database.write() as tx:
        past = tx.now - timedelta(minutes=1)
        tx.execute(sa.delete(gateway))
        # Code waits for it: the attempt that asked is running.
        tx.execute(sa.update(llm_call).where(llm_call.c.id == row["id"]).values(due_at=past, fence=1))
    LostCalls(world.database, world.settings).run_once()
    assert count("llm_calls", model="unclaimed-count", state="failed") == 1
