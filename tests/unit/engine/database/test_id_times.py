"""Times in ids, also those that no id has."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from functory.engine.database.id_times import lowest_id, time_of_id


@pytest.mark.parametrize("year", [1, 1900, 1969])
def test_a_time_before_1970_has_the_lowest_id_of_all(year: int) -> None:
    assert lowest_id(datetime(year, 1, 1, tzinfo=UTC)) == lowest_id(datetime(1970, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("year", [1970, 2026, 2100, 9999])
def test_an_id_gives_its_time_back(year: int) -> None:
    assert time_of_id(lowest_id(datetime(year, 1, 1, tzinfo=UTC))) == datetime(year, 1, 1, tzinfo=UTC)
