"""Scenarios of flow control: what waits, what is dropped, and what is cancelled."""

from __future__ import annotations

from typing import Any

from tests.simulation.batches.scenarios import scenario
from tests.simulation.batches.stepped_engine import SteppedEngine

KEY = "string(data.k)"


def _ticks(engine: SteppedEngine, flow: dict[str, Any], rounds: int = 3) -> None:
    """Ten events with three keys, three times, with a pause between."""
    engine.function("work", lambda call: {"n": call.number})
    engine.trigger("t", "work", "tick", flow=flow)
    for first in range(0, rounds * 10, 10):
        for number in range(first, first + 10):
            engine.emit("tick", number, k=number % 3)
        engine.settle()
        engine.advance(6)
        engine.settle()


@scenario()
def debounce(engine: SteppedEngine) -> None:
    _ticks(engine, {"debounce": {"period": "10s", "key": KEY, "timeout": "15s"}})
    engine.advance(60)
    engine.settle()


@scenario()
def batch(engine: SteppedEngine) -> None:
    _ticks(engine, {"batch": {"max_size": 4, "timeout": "10s"}})
    engine.advance(60)
    engine.settle()


@scenario()
def batch_by_key(engine: SteppedEngine) -> None:
    _ticks(engine, {"batch": {"max_size": 3, "timeout": "5s", "key": KEY}})


@scenario()
def throttle(engine: SteppedEngine) -> None:
    _ticks(engine, {"throttle": {"limit": 2, "period": "2s", "burst": 2, "key": KEY}}, rounds=2)
    for _ in range(10):
        engine.advance(2)
        engine.settle()


@scenario()
def rate_limit(engine: SteppedEngine) -> None:
    _ticks(engine, {"rate_limit": {"limit": 2, "period": "10s", "burst": 2, "key": KEY}})


@scenario()
def concurrency(engine: SteppedEngine) -> None:
    _ticks(engine, {"concurrency": {"limit": 1, "key": KEY}}, rounds=2)


@scenario()
def concurrency_of_two_limits_with_retries(engine: SteppedEngine) -> None:
    limits = [{"limit": 2}, {"limit": 1, "key": KEY, "scope": "function"}]
    engine.function(
        "work",
        lambda call: call.fail() if call.number % 4 == 0 and call.attempt == 1 else call.number,
        limits={"retries": 1, "retry_delay": 3},
    )
    engine.trigger("t", "work", "tick", flow={"concurrency": limits})
    for number in range(9):
        engine.emit("tick", number, k=number % 3)
    for _ in range(6):
        engine.settle()
        engine.advance(3)
    engine.settle()


@scenario()
def singleton_skip(engine: SteppedEngine) -> None:
    _ticks(engine, {"singleton": {"key": KEY, "mode": "skip"}}, rounds=2)


@scenario()
def singleton_cancel(engine: SteppedEngine) -> None:
    _ticks(engine, {"singleton": {"key": KEY, "mode": "cancel"}}, rounds=2)


def _overlap(engine: SteppedEngine, policy: str) -> None:
    """Events while executions of the same key wait for a retry, and while none is open."""
    engine.function(
        "work",
        lambda call: call.fail() if call.attempt == 1 else call.number,
        limits={"retries": 1, "retry_delay": 20},
    )
    engine.trigger("t", "work", "tick", flow={"overlap": {"policy": policy, "key": KEY}})
    for first in (0, 10, 20):
        for number in range(first, first + 5):
            engine.emit("tick", number, k=number % 2)
        engine.settle()
        engine.advance(7)
    for _ in range(4):
        engine.advance(25)
        engine.settle()


@scenario()
def overlap_skip(engine: SteppedEngine) -> None:
    _overlap(engine, "skip")


@scenario()
def overlap_buffer_one(engine: SteppedEngine) -> None:
    _overlap(engine, "buffer_one")


@scenario()
def overlap_buffer_all(engine: SteppedEngine) -> None:
    _overlap(engine, "buffer_all")


@scenario()
def overlap_cancel_other(engine: SteppedEngine) -> None:
    _overlap(engine, "cancel_other")


@scenario()
def overlap_terminate_other(engine: SteppedEngine) -> None:
    _overlap(engine, "terminate_other")


@scenario()
def priority_and_expiry(engine: SteppedEngine) -> None:
    engine.function("work", limits={"expires": 30})
    engine.function("urgent", limits={"priority": 5})
    engine.trigger("t", "work", "tick", flow={"priority": {"run": "data.n * 10"}, "expires": "20s"})
    engine.trigger("u", "urgent", "tick")
    engine.emit("tick", *range(9))
    engine.route()
    engine.advance(10)
    engine.emit("tick", *range(10, 15))
    engine.route()
    engine.advance(12)
    engine.reap()
    engine.compare()
    engine.settle()


@scenario()
def cancel_on(engine: SteppedEngine) -> None:
    rule = {"on": {"type": ["stop"]}, "when": "data.n == started.data.n", "timeout": "1m"}
    engine.function(
        "work",
        lambda call: call.fail() if call.attempt == 1 else None,
        limits={"retries": 1, "retry_delay": 20},
    )
    engine.trigger("t", "work", "tick", flow={"cancel_on": [rule]})
    engine.emit("tick", *range(9))
    # In the same batch as what it cancels.
    engine.emit("stop", 3, 5)
    engine.settle()
    engine.emit("stop", 1)
    engine.settle()
    engine.advance(25)
    engine.settle()


@scenario()
def idempotency_rate_limit_and_throttle_together(engine: SteppedEngine) -> None:
    """Without concurrency and priority: an execution without a token of its throttle is put back to an estimate of its
    turn, which depends on those that ask in the same claim."""
    flow = {
        "idempotency": {"key": "data.n % 8", "window": "1h"},
        "rate_limit": {"limit": 7, "period": "1m", "burst": 7},
        "throttle": {"limit": 3, "period": "3s", "burst": 3},
    }
    _ticks(engine, flow, rounds=2)


@scenario()
def idempotency_concurrency_and_priority_together(engine: SteppedEngine) -> None:
    flow = {
        "idempotency": {"key": "data.n % 16", "window": "1h"},
        "concurrency": [{"limit": 2, "key": KEY}, {"limit": 3}],
        "priority": {"run": "data.n"},
        "expires": "1m",
    }
    _ticks(engine, flow, rounds=2)
