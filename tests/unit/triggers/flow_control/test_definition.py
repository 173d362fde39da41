"""Flow control as it is written: what each control takes, what is refused and why, what it says of one match."""

import pytest

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import (
    NO_CONTROLS,
    NO_KEY,
    ConcurrencyLimit,
    Controls,
    IdempotencyKey,
    Key,
    Overlap,
    RateLimit,
)
from functory.triggers.flow_control.definition import CONTROLS, INCOMPATIBLE, NO_FLOW, compile_flow
from functory.triggers.flow_control.limits import WEEK

EVENT = {"id": "1", "type": "order.placed", "data": {"customer": "ada", "urgent": True, "n": 3, "none": None}}
LONE = "\ud800"

VALID = {
    "debounce": {"period": "10s"},
    "batch": {"max_size": 10, "timeout": "60s"},
    "throttle": {"limit": 3, "period": "1m"},
    "rate_limit": {"limit": 3, "period": "1m"},
    "concurrency": {"limit": 5},
    "priority": {"run": "1"},
    "overlap": "skip",
    "singleton": {"mode": "skip"},
    "idempotency": {"key": "data.customer"},
    "cancel_on": [{"on": {"type": ["order.cancelled"]}}],
    "expires": "10m",
}


def controls(**flow: object) -> Controls:
    return compile_flow(flow, composite=False).evaluate(EVENT)


def test_every_control_has_an_example_here() -> None:
    assert set(VALID) == set(CONTROLS)


@pytest.mark.parametrize("name", CONTROLS)
def test_each_control_is_taken_alone_and_none_of_them_is_nothing(name: str) -> None:
    assert compile_flow({name: VALID[name]}, composite=False) != NO_FLOW
    assert compile_flow({name: None}, composite=False) is NO_FLOW


def test_a_trigger_without_flow_control_says_nothing_of_a_match() -> None:
    assert compile_flow(None, composite=False) is compile_flow({}, composite=True) is NO_FLOW
    assert NO_FLOW.evaluate(EVENT) is NO_CONTROLS


@pytest.mark.parametrize("first", CONTROLS)
@pytest.mark.parametrize("second", [*CONTROLS, "composite"])
def test_two_controls_combine_or_are_refused_with_the_reason(first: str, second: str) -> None:
    if first == second:
        return
    flow = {name: VALID[name] for name in (first, second) if name in VALID}
    why = INCOMPATIBLE.get(frozenset({first, second}))
    if why is None:
        compile_flow(flow, composite=second == "composite")
        return
    with pytest.raises(Invalid) as refused:
        compile_flow(flow, composite=second == "composite")
    assert "cannot be combined" in refused.value.what and refused.value.why == why
    assert first in refused.value.what and second in refused.value.what


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"throttle": {"limit": 3, "period": "1m"}}, Controls(throttle=RateLimit(NO_KEY, 3, 60.0, 1))),
        (
            {"rate_limit": {"limit": 1, "period": 5, "burst": 2, "key": "data.customer"}},
            Controls(rate_limit=RateLimit(Key.of("ada"), 1, 5.0, 2)),
        ),
        ({"concurrency": {"limit": 5}}, Controls(concurrency_limits=(ConcurrencyLimit(NO_KEY, 5),))),
        (
            {
                "concurrency": [
                    {"limit": 1, "key": "data.n"},
                    {"limit": 9, "scope": "global", "key": "'mail'"},
                ]
            },
            Controls(
                concurrency_limits=(
                    ConcurrencyLimit(Key.of(3), 1),
                    ConcurrencyLimit(Key.of("mail"), 9, "global"),
                )
            ),
        ),
        ({"priority": {"run": "data.urgent ? 120 : 0"}}, Controls(priority=120.0)),
        ({"priority": {"run": "data.n * 1000"}}, Controls(priority=600.0)),
        ({"priority": {"run": "-1e9"}}, Controls(priority=-600.0)),
        ({"singleton": {"mode": "skip"}}, Controls(overlap=Overlap(NO_KEY, "skip", "singleton"))),
        (
            {"singleton": {"mode": "cancel", "key": "data.customer"}},
            Controls(overlap=Overlap(Key.of("ada"), "cancel_other", "singleton")),
        ),
        (
            {"idempotency": {"key": "[data.customer, event.type]", "window": "1h"}},
            Controls(idempotency=IdempotencyKey(Key.of(["ada", "order.placed"]), 3600.0)),
        ),
        ({"idempotency": {"key": "data.none"}}, Controls(idempotency=IdempotencyKey(NO_KEY, 86_400.0))),
        ({"overlap": "buffer_all"}, Controls(overlap=Overlap(NO_KEY, "buffer_all"))),
        ({"overlap": {"policy": "skip", "key": "data.n"}}, Controls(overlap=Overlap(Key.of(3), "skip"))),
        ({"overlap": "allow_all"}, Controls()),
        ({"overlap": "schedule"}, Controls(overlap=Overlap(NO_KEY, "allow_all"))),
        ({"expires": "10m"}, Controls(expires_after=600.0)),
    ],
)
def test_what_a_control_says_of_a_match(flow: dict[str, object], expected: Controls) -> None:
    assert controls(**flow) == expected


@pytest.mark.parametrize(
    ("data", "policy"),
    [
        ({"overlap": "cancel_other"}, "cancel_other"),
        ({"overlap": "sometimes"}, "allow_all"),
        ({"overlap": ["skip"]}, "allow_all"),
        ("skip", "allow_all"),
        (None, "allow_all"),
    ],
)
def test_the_event_of_a_schedule_says_its_policy(data: object, policy: str) -> None:
    rule = compile_flow({"overlap": "schedule"}, composite=False).evaluate({"data": data}).overlap
    assert rule is not None and rule.policy == policy


@pytest.mark.parametrize(
    ("flow", "what"),
    [
        ("skip", "wrong flow"),
        ([], "wrong flow"),
        ({"queue": 1}, "unknown fields of flow: queue"),
        ({1: 2}, "unknown fields of flow: 1"),
        ({"throttle": 3}, "wrong throttle"),
        ({"throttle": {"limit": 3}}, "throttle has no 'period'"),
        ({"throttle": {"period": "1m"}}, "throttle has no 'limit'"),
        ({"throttle": {"limit": 0, "period": "1m"}}, "wrong limit of throttle 0"),
        ({"throttle": {"limit": True, "period": "1m"}}, "wrong limit of throttle True"),
        ({"throttle": {"limit": 1.5, "period": "1m"}}, "wrong limit of throttle 1.5"),
        ({"throttle": {"limit": 1, "period": "0.5s"}}, "wrong period of throttle '0.5s'"),
        ({"throttle": {"limit": 1, "period": WEEK + 1}}, "wrong period of throttle"),
        ({"throttle": {"limit": 1, "period": "1m", "burst": 0}}, "wrong burst of throttle 0"),
        ({"rate_limit": {"limit": 1, "period": "1m", "per": 3}}, "unknown fields of rate_limit: per"),
        ({"rate_limit": {"limit": 1, "period": "1m", "key": 3}}, "the key of rate_limit is not a text"),
        (
            {"rate_limit": {"limit": 1, "period": "1m", "key": "data."}},
            "the key of rate_limit is not valid CEL",
        ),
        (
            {"rate_limit": {"limit": 1, "period": "1m", "key": LONE}},
            "the key of rate_limit is not valid text",
        ),
        (
            {"rate_limit": {"limit": 1, "period": "1m", "key": "x" * 3000}},
            "the key of rate_limit is too long",
        ),
        ({"concurrency": []}, "wrong concurrency"),
        ({"concurrency": [{"limit": 1}] * 3}, "wrong concurrency"),
        ({"concurrency": {}}, "concurrency has no 'limit'"),
        ({"concurrency": {"limit": 1, "scope": "env"}}, "wrong scope of concurrency 'env'"),
        ({"concurrency": {"limit": 1, "scope": ["global"]}}, "wrong scope of concurrency"),
        ({"concurrency": {"limit": 1, "scope": "global"}}, "concurrency of scope global has no key"),
        ({"priority": 3}, "wrong priority"),
        ({"priority": {}}, "priority has no 'run'"),
        ({"singleton": "skip"}, "wrong singleton"),
        ({"singleton": {"mode": "terminate"}}, "wrong mode of singleton 'terminate'"),
        ({"overlap": "parallel"}, "wrong overlap policy 'parallel'"),
        ({"overlap": {"key": "data.n"}}, "overlap has no 'policy'"),
        ({"idempotency": "data.n"}, "wrong idempotency"),
        ({"idempotency": {"key": "data.n", "window": "8d"}}, "wrong window of idempotency '8d'"),
        ({"cancel_on": {"on": {"type": ["x"]}}}, "wrong cancel_on"),
        ({"cancel_on": []}, "wrong cancel_on"),
        ({"cancel_on": [{"on": {"type": ["x"]}}] * 6}, "wrong cancel_on"),
        ({"cancel_on": [{}]}, "a rule of cancel_on has no 'on'"),
        (
            {"cancel_on": [{"on": {"type": ["x"]}, "when": "1 + 1"}]},
            "the condition does not answer yes or no",
        ),
        ({"cancel_on": [{"on": {"type": ["x"]}, "timeout": -1}]}, "wrong timeout of cancel_on"),
        ({"expires": 0}, "wrong expires 0"),
        ({"expires": "soon"}, "wrong expires 'soon'"),
        ({"expires": "nul\x00"}, "wrong expires"),
    ],
)
def test_what_is_wrong_is_refused_by_name(flow: object, what: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile_flow(flow, composite=False)  # type: ignore[arg-type]
    assert what in refused.value.what
    assert refused.value.why or refused.value.try_


@pytest.mark.parametrize(
    "flow",
    [
        {"concurrency": {"limit": 1, "key": "data.missing"}},
        {"throttle": {"limit": 1, "period": 1, "key": "data.customer.name"}},
        {"idempotency": {"key": "event.missing"}},
        {"priority": {"run": "data.customer"}},
        {"priority": {"run": "data.urgent"}},
    ],
)
def test_a_key_that_has_no_value_for_an_event_says_so(flow: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        controls(**flow)


@pytest.mark.parametrize("value", ["", "x" * 10_000, "ü\x00", LONE, 0, -1.5, True, [1, {"a": None}], {}])
def test_a_key_of_any_value_is_short_and_distinct(value: object) -> None:
    key = Key.of(value)
    assert len(key.hash) == 32 and len(key.text) <= 200
    assert key == Key.of(value) and key.hash != Key.of([value]).hash != Key.of(None).hash
