"""Plots in plain text."""

import pytest

from functory.terminal.plots import bar, sparkline


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([0, 0], "··"),
        ([1, 2, 4, 8], "▂▃▅█"),
        ([0.001, 8], "▁█"),
        ([None, 3, None], " █ "),
    ],
)
def test_a_line_has_a_character_for_each_number(values, line):
    assert sparkline(values) == line


def test_a_long_line_shows_the_largest_of_the_numbers_that_share_a_character():
    assert sparkline([9, 0, 0, 0, 0, 0, 3], width=3) == "█·▃"
    assert len(sparkline(list(range(1000)), width=60)) <= 60
    assert sparkline([None, None, 1, None], width=2) == " █"


@pytest.mark.parametrize(
    ("share", "full", "width"), [(0, 0, 10), (1, 10, 10), (2.5, 10, 10), (0.5, 5, 10), (-1, 0, 10)]
)
def test_a_bar_is_as_long_as_its_share(share, full, width):
    assert bar(share, width) == ("█" * full).ljust(width)


def test_a_share_above_zero_is_seen():
    assert bar(0.0001, 10).strip()
