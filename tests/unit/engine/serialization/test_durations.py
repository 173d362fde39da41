"""Lengths of time as people write them."""

import math

import pytest

from functory.engine.errors import Invalid
from functory.engine.serialization.durations import format_duration, parse


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (90, 90),
        (0.5, 0.5),
        ("0", 0),
        ("0.0", 0),
        ("90s", 90),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("7d", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_a_length_is_seconds_or_numbers_with_units(given, value):
    assert parse(given, "period") == value


@pytest.mark.parametrize(
    "given",
    ["", "90", "5 m", "m", "-5s", "1y", None, True, [], math.nan, math.inf, "9" * 70 + "s", "1e3s", "٣s"],
)
def test_anything_else_is_refused_with_an_example(given):
    with pytest.raises(Invalid, match="wrong period"):
        parse(given, "period")


def test_bounds_are_named():
    with pytest.raises(Invalid, match="it must be from 1s to 7d"):
        parse("8d", "period", 1, 604_800)


@pytest.mark.parametrize("value", [0, 0.5, 1, 59.25, 60, 90, 3600, 5400, 86_400, 694_861.5])
def test_what_is_written_reads_back(value):
    assert parse(format_duration(value), "period") == value
