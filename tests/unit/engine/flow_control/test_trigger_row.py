"""The row of a trigger, made of a mapping."""

import pytest

from functory.engine.flow_control.trigger_row import TriggerRow, from_mapping


def test_it_has_the_columns_that_are_there_and_no_other() -> None:
    given = {
        "id": "t",
        "name": "check",
        "version": 2,
        "definition": {"on": {}},
        "state": "shadow",
        "sha256": "…",
    }
    assert from_mapping(given) == TriggerRow("t", "check", 2, {"on": {}}, "shadow")


def test_a_mapping_without_a_definition_is_refused() -> None:
    with pytest.raises(TypeError, match="definition"):
        from_mapping({"id": "t", "name": "check", "version": 2})
