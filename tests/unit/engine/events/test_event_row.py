"""The row of an event, made of a new row that is to be inserted."""

import pytest
from msgspec.structs import asdict

from functory.engine.events.event_row import from_mapping
from tests.support.event_rows import event_row


def test_it_has_the_columns_of_the_mapping_and_no_other() -> None:
    row = event_row(type="order.paid", data={"n": 1}, depth=2)
    assert from_mapping(asdict(row) | {"dedup_key": "once"}) == row


def test_a_mapping_without_a_column_is_refused() -> None:
    with pytest.raises(KeyError, match="chain"):
        from_mapping({name: value for name, value in asdict(event_row()).items() if name != "chain"})
