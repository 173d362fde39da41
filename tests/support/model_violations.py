"""Ways to break the invariants of calls of language models, I21 to I23, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from functory.engine.database import schema as t
from tests.support import model_history
from tests.support.invariant_violations import breaks, change, first, remove
from tests.support.world import World


def _meter_of(world: World, ids: Mapping[str, str], call: str) -> object:
    return t.meter.c.root_id == first(world, t.llm_call, t.llm_call.c.id == ids[f"call {call}"])["root_id"]


@breaks("I21")
def _a_meter_that_has_spent_less_than_its_calls(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.meter, _meter_of(world, ids, "succeeded"), usd_spent=0)


@breaks("I21")
def _a_meter_that_has_forgotten_tokens_of_a_lost_answer(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.meter, _meter_of(world, ids, "lost"), tokens_spent=0)


@breaks("I21")
def _a_reservation_of_nothing(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.meter, _meter_of(world, ids, "asked by a person"), usd_reserved=1)


@breaks("I21")
def _a_meter_that_counts_a_call_twice(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.meter, _meter_of(world, ids, "retried"), calls=t.meter.c.calls + 1)


@breaks("I21")
def _a_call_without_a_meter(world: World, ids: Mapping[str, str]) -> None:
    remove(world, t.meter, _meter_of(world, ids, "cancelled"))


@breaks("I22")
def _a_day_that_has_spent_less_than_its_calls(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.quota_day, t.quota_day.c.usd_spent > 0, usd_spent=t.quota_day.c.usd_spent - 1)


@breaks("I22")
def _a_day_that_still_reserves(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.quota_day, t.quota_day.c.scope == "all", tokens_reserved=1)


@breaks("I22")
def _a_day_that_counts_fewer_calls(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.quota_day, t.quota_day.c.calls > 0, calls=0)


@breaks("I23")
def _a_call_that_no_gateway_holds(world: World, ids: Mapping[str, str]) -> None:
    model_history.ask(world)
    model_history.send(world)
    change(world, t.llm_call, t.llm_call.c.state == "sent", lease_until=None)


@breaks("I23")
def _a_call_whose_gateway_is_long_gone(world: World, ids: Mapping[str, str]) -> None:
    model_history.ask(world)
    model_history.send(world)
    past = world.clock.now() - timedelta(hours=1)
    change(world, t.llm_call, t.llm_call.c.state == "sent", lease_until=past)


@breaks("I23")
def _a_call_that_has_ended_and_holds_a_lease(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.llm_call, t.llm_call.c.id == ids["call failed"], lease_until=world.clock.now())


@breaks("I23")
def _a_try_of_another_call(world: World, ids: Mapping[str, str]) -> None:
    own = t.llm_try.c.call_id == ids["call retried"]
    change(world, t.llm_try, own, t.llm_try.c.number == 1, call_id=ids["call cancelled"])


@breaks("I23")
def _a_call_that_costs_other_than_its_tries(world: World, ids: Mapping[str, str]) -> None:
    change(world, t.llm_call, t.llm_call.c.id == ids["call succeeded"], cost=1)
