"""The gauges of language models: open calls, gateways, breakers, and what is spent today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.agents import call_queue
from functory.engine.database.schema import llm_call, model_health, quota_day
from functory.engine.maintenance import model_gauges, state_gauges
from tests.support.model_server import ModelServer, model_server
from tests.support.models import ModelsWorld
from tests.support.patience import patient


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: ModelServer) -> Iterator[ModelsWorld]:
    made = ModelsWorld(f"sqlite:///{tmp_path}/rows.db", tmp_path, server)
    yield made
    made.database.close()


def shown(world: ModelsWorld) -> dict[tuple[str, ...], float]:
    wanted = {f"functory_{name}" for name, _, _ in model_gauges.FAMILIES}
    return {
        (sample.name.removeprefix("functory_"), *sample.labels.values()): sample.value
        for family in state_gauges.read(world.database, world.settings)
        if family.name in wanted
        for sample in family.samples
    }


def test_a_deployment_without_models_shows_zeros_and_the_limit_of_the_day(world: ModelsWorld) -> None:
    found = shown(world)
    assert found.pop(("llm_day_dollars", "limit")) == 10
    assert set(found.values()) == {0}
    assert {key[0] for key in found} == {name for name, _, _ in model_gauges.FAMILIES} - {"llm_breaker_open"}


def test_calls_that_wait_and_calls_that_are_sent_are_counted_apart(world: ModelsWorld) -> None:
    world.add_model(slots=1)
    waiting, _ = world.ask("one"), world.ask("two", number=2)
    with world.database.write() as tx:
        long_ago = tx.now - timedelta(seconds=90)
        tx.execute(sa.update(llm_call).where(llm_call.c.id == waiting["id"]).values(due_at=long_ago))
    found = shown(world)
    assert (found["llm_open_calls", "queued"], found["llm_open_calls", "sent"]) == (2, 0)
    assert 90 <= found["llm_oldest_queued_seconds",] < 90 + patient(30)
    with world.database.write() as tx:
        call_queue.renew(tx, "here:1", tx.now, [])
        (sent,) = call_queue.claim(tx, "here:1", 10, world.settings).sent
    assert sent.row["id"] == waiting["id"]
    found = shown(world)
    assert (found["llm_open_calls", "queued"], found["llm_open_calls", "sent"]) == (1, 1)
    assert found["llm_oldest_queued_seconds",] < 60
    assert found["gateway_up",] == 1
    assert found["llm_day_dollars", "reserved"] > 0
    assert found["llm_day_dollars", "spent"] == 0


def test_a_model_whose_breaker_is_open_is_named(world: ModelsWorld) -> None:
    for name in ("small", "large", "off"):
        world.add_model(name)
    world.models.set_state("off", "disabled", author="ada")
    with world.database.write() as tx:
        until = tx.now + timedelta(minutes=1)
        for name in ("large", "off"):
            tx.execute(sa.update(model_health).where(model_health.c.model == name).values(open_until=until))
    found = {key[1]: value for key, value in shown(world).items() if key[0] == "llm_breaker_open"}
    assert found == {"small": 0, "large": 1}


def test_the_most_used_quota_of_each_scope_is_shown_and_one_of_zero_is_not_used(world: ModelsWorld) -> None:
    world.budgets.set_quota("all", "", {"usd": 2.0, "calls": 100}, author="ada")
    for name, limits in (("a", {"tokens": 1_000}), ("b", {"tokens": 500}), ("closed", {"usd": 0})):
        world.budgets.set_quota("user", name, limits, author="ada")
    zero = {"usd_reserved": 0, "tokens_reserved": 0, "warned_at": None, "exceeded_at": None}
    with world.database.write() as tx:
        tx.insert(
            quota_day,
            [
                {
                    "scope": scope,
                    "name": name,
                    "day": tx.now.date(),
                    "usd_spent": usd,
                    "tokens_spent": 250,
                    "calls": 90,
                    **zero,
                }
                for scope, name, usd in (("all", "", 10**9), ("user", "a", 0), ("user", "b", 0))
            ],
        )
    found = shown(world)
    assert (found["llm_day_dollars", "spent"], found["llm_day_dollars", "limit"]) == (1, 2)
    ratios = {key[1]: value for key, value in found.items() if key[0] == "llm_quota_used_ratio"}
    assert ratios == {"all": 0.9, "key": 0, "agent": 0, "user": 0.5}
