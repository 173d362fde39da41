"""Flow control as options of `functory trigger add`, and as `functory trigger show` tells it."""

import json
from pathlib import Path
from typing import Any

import pytest

from functory.cli.input import flow_control
from functory.cli.output import trigger_definition
from functory.engine.errors import Invalid

KEY = "data.customer"
PAID = {"type": ["order.paid"]}


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, None),
        ({"debounce": "10s"}, {"debounce": {"period": "10s"}}),
        ({"debounce": "10s/5m"}, {"debounce": {"period": "10s", "timeout": "5m"}}),
        ({"throttle": "3/1m"}, {"throttle": {"limit": 3, "period": "1m"}}),
        ({"rate_limit": "3/1m/2"}, {"rate_limit": {"limit": 3, "period": "1m", "burst": 2}}),
        ({"batch": "100/60s"}, {"batch": {"max_size": 100, "timeout": "60s"}}),
        ({"concurrency": 5}, {"concurrency": {"limit": 5}}),
        ({"concurrency": 1, "key": KEY}, {"concurrency": {"limit": 1, "key": KEY}}),
        ({"singleton": "skip", "key": KEY}, {"singleton": {"mode": "skip", "key": KEY}}),
        ({"overlap": "buffer_one"}, {"overlap": "buffer_one"}),
        ({"overlap": "skip", "key": KEY}, {"overlap": {"policy": "skip", "key": KEY}}),
        ({"idempotency": "data.order"}, {"idempotency": {"key": "data.order"}}),
        ({"priority": "data.urgent ? 60 : 0"}, {"priority": {"run": "data.urgent ? 60 : 0"}}),
        ({"expires": "10m"}, {"expires": "10m"}),
        (
            {"debounce": "1s", "concurrency": 1, "key": KEY, "idempotency": "data.order"},
            {
                "debounce": {"period": "1s", "key": KEY},
                "concurrency": {"limit": 1, "key": KEY},
                "idempotency": {"key": "data.order"},
            },
        ),
        (
            {"concurrency": 1, "flow": '{"expires": "1h"}'},
            {"concurrency": {"limit": 1}, "expires": "1h"},
        ),
    ],
)
def test_options_spell_the_common_form_of_each_control(options: dict[str, Any], made: dict | None) -> None:
    assert flow_control.from_options(**options) == made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"throttle": "3"}, "wrong --throttle '3'"),
        ({"throttle": "x/1m"}, "'x' is not a whole number"),
        ({"throttle": "٣/1m"}, "is not a whole number"),
        ({"throttle": "3/1m/2/1"}, "LIMIT/PERIOD/BURST"),
        ({"rate_limit": "/1m"}, "wrong --rate-limit"),
        ({"batch": "100"}, "--batch 100/60s"),
        ({"batch": "9999999999/60s"}, "is not a whole number"),
        ({"debounce": ""}, "wrong --debounce"),
        ({"debounce": "1s/2s/3s"}, "wrong --debounce"),
        ({"key": KEY}, "--key needs another option"),
        ({"key": KEY, "expires": "10m"}, "--key needs another option"),
        ({"flow": "[]"}, "--flow must be a JSON object"),
        ({"flow": "{"}, "--flow is not JSON"),
        ({"flow": '{"expires": "1h"}', "expires": "2h"}, "expires is given twice"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid) as caught:
        flow_control.from_options(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("control", "described"),
    [
        ({"debounce": {"period": "10s", "timeout": "5m", "key": KEY}}, "at most 5m, for each data.customer"),
        ({"debounce": {"period": "10s", "keep": "all"}}, "all events together, after 10s of quiet"),
        ({"throttle": {"limit": 3, "period": "1m", "burst": 2}}, "3 in 1m, 2 at once; the rest waits"),
        ({"rate_limit": {"limit": 3, "period": "1m"}}, "3 in 1m; the rest is dropped"),
        ({"batch": {}}, "100 events together, or what there is after 60s"),
        (
            {"batch": {"max_bytes": 1000, "if": "data.n > 1"}},
            "or 1,000 bytes, or what there is after 60s; alone",
        ),
        ({"concurrency": {"limit": 5, "scope": "global", "key": "'printer'"}}, "of everything with this key"),
        ({"singleton": {"mode": "cancel", "key": KEY}}, "the older one is cancelled"),
        ({"overlap": {"policy": "skip", "key": KEY}}, "skip, for each data.customer"),
        ({"overlap": "schedule"}, "schedule"),
        ({"idempotency": {"key": KEY, "window": "1h"}}, "once in 1h, for each data.customer"),
        ({"priority": {"run": "60"}}, "60"),
        (
            {"cancel_on": [{"on": PAID, "when": "true", "timeout": "1h"}]},
            '{"type":["order.paid"]}  when true',
        ),
        ({"expires": "10m"}, "10m"),
    ],
)
def test_each_control_is_described_in_words(control: dict[str, Any], described: str) -> None:
    assert described in " ".join(text for _, text in trigger_definition.describe(control))


def test_two_concurrency_limits_are_two_lines() -> None:
    both = {"concurrency": [{"limit": 5}, {"limit": 1, "key": KEY}]}
    assert list(trigger_definition.describe(both)) == [
        ("concurrency", "5 at a time"),
        ("concurrency", "1 at a time, for each data.customer"),
    ]


@pytest.mark.parametrize(
    ("composite", "words"),
    [
        ({"all": [{"name": "paid", "on": PAID}, {"on": PAID}]}, ["all of the parts", "paid", "part 2"]),
        ({"any": [{"on": PAID}]}, ["any one of the parts"]),
        ({"n_of": {"n": 2, "parts": [{"on": PAID}] * 3}}, ["2 of the parts", "part 3"]),
        ({"sequence": [{"on": PAID, "when": "data.n > 1"}]}, ["in this order", "when data.n > 1"]),
        ({"threshold": {"count": 5, "on": PAID}}, ["5 events, within 10m"]),
        ({"absence": {"of": {"on": PAID}}}, ["the absence of an event", "the missing event"]),
        ({"absence": {"of": {"on": PAID}, "after": {"name": "sent", "on": PAID}}}, ["after"]),
        (
            {"any": [{"on": PAID}], "key": KEY, "allowance": "5s"},
            ["for each data.customer", "may be 5s late"],
        ),
    ],
)
def test_a_composite_is_described_with_its_parts(composite: dict[str, Any], words: list[str]) -> None:
    said = "\n".join(
        f"{name}  {text}"
        for name, text in trigger_definition.describe_composite(composite | {"within": "10m"})
    )
    for word in words:
        assert word in said


def test_a_trigger_may_stand_in_a_yaml_file(tmp_path: Path) -> None:
    from functory.cli.commands.trigger.crud import _read_file

    file = tmp_path / "t.yaml"
    file.write_text("on: {type: [order.paid]}\nfunction: work\nflow:\n  debounce: {period: 10s}\n")
    assert _read_file(str(file)) == {
        "on": {"type": ["order.paid"]},
        "function": "work",
        "flow": {"debounce": {"period": "10s"}},
    }
    file.write_text(json.dumps(["not", "an", "object"]))
    with pytest.raises(Invalid, match="holds no trigger"):
        _read_file(str(file))
