"""Which event types the patterns of triggers could match."""

from __future__ import annotations

from typing import Any

import pytest

from functory.triggers.patterns import compile_pattern
from functory.triggers.wanted_types import wanted_types

STARTED, SUCCEEDED, ORDER = TYPES = ("execution.started", "execution.succeeded", "order.created")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"type": ["order.created"]}, {ORDER}),
        ({"type": ["other"]}, set()),
        ({"type": ["other", "execution.started"]}, {STARTED}),
        ({"type": [{"prefix": "execution."}]}, {STARTED, SUCCEEDED}),
        ({"type": [{"suffix": ".created"}], "subject": ["x"]}, {ORDER}),
        ({"type": [{"wildcard": "*.s*"}]}, {STARTED, SUCCEEDED}),
        ({"type": [{"anything-but": ["order.created"]}]}, {STARTED, SUCCEEDED}),
        ({"type": [{"exists": True}]}, set(TYPES)),
        ({"type": [{"exists": False}]}, set()),
        ({"data": {"n": [1]}}, set(TYPES)),
        ({"data": {"type": ["order.created"]}}, set(TYPES)),
        ({"subject": ["work"]}, set(TYPES)),
        ({"$or": [{"type": ["order.created"]}, {"type": ["execution.started"]}]}, {ORDER, STARTED}),
        ({"$or": [{"type": ["order.created"]}, {"subject": ["x"]}]}, set(TYPES)),
    ],
)
def test_a_type_is_wanted_unless_the_pattern_excludes_it(pattern: dict[str, Any], expected: set[str]) -> None:
    compiled = compile_pattern(pattern)
    found = wanted_types([compiled], TYPES)
    assert found == expected
    # What matches is wanted.
    for type_ in TYPES:
        event = {"type": type_, "subject": "x", "data": {"n": 1, "type": "order.created"}}
        assert type_ in found or not compiled.matches(event)


def test_of_several_patterns_one_is_enough() -> None:
    patterns = [compile_pattern({"type": [name]}) for name in ("other", ORDER, STARTED)]
    assert wanted_types(patterns, TYPES) == {ORDER, STARTED}
    assert wanted_types([], TYPES) == frozenset()
