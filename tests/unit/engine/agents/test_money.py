"""Dollars and nano-dollars: exact, rounded up, and readable."""

from __future__ import annotations

import pytest

from functory.engine.agents import money
from functory.engine.errors import Invalid

SMALL = {"price_in": 150_000_000, "price_cached": 75_000_000, "price_out": 600_000_000}


@pytest.mark.parametrize(
    ("given", "nano"),
    [
        (1, 10**9),
        ("1.50", 1_500_000_000),
        ("$0.15", 150_000_000),
        ("$1,000", 10**12),
        (0, 0),
        (0.1, 100_000_000),
        ("0.0000000001", 1),
    ],
)
def test_dollars_are_read_exactly_and_rounded_up(given: object, nano: int) -> None:
    assert money.nano_dollars(given, "price") == nano


@pytest.mark.parametrize("given", [-1, "x", "", None, True, [], "nan", "inf", 10**10, "1e40"])
def test_what_is_no_amount_is_refused(given: object) -> None:
    with pytest.raises(Invalid, match="wrong price"):
        money.nano_dollars(given, "price")


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "$0.00"),
        (1_500_000_000, "$1.50"),
        (1_234_000_000_000, "$1,234.00"),
        (22_000, "$0.000022"),
        (1, "$0.000000001"),
        (123_456_789, "$0.123"),
        (100_000_000, "$0.10"),
    ],
)
def test_amounts_are_shown_with_the_digits_that_they_need(nano: int, text: str) -> None:
    assert money.dollars(nano) == text


def test_an_answer_costs_its_tokens_and_cached_ones_less() -> None:
    assert money.cost(SMALL, 1_000_000, 0) == 150_000_000
    assert money.cost(SMALL, 1_000_000, 1_000_000) == 750_000_000
    assert money.cost(SMALL, 1_000_000, 0, 1_000_000) == 75_000_000
    # A provider that tells more cached tokens than it was sent.
    assert money.cost(SMALL, 1_000_000, 0, 5_000_000) == 75_000_000


def test_a_part_of_a_nano_dollar_is_a_whole_one() -> None:
    assert money.cost({"price_in": 1, "price_cached": 1, "price_out": 1}, 1, 1) == 2
