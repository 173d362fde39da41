"""The pauses between tries: they grow to their most, stay in their bounds, and begin again after a success."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.backoff import HALF, Backoff, pause

SECONDS = st.floats(0.001, 86_400.0)
SHARES = st.floats(0.0, 1.0)


@given(
    tries=st.integers(0, 10**30),
    first=SECONDS,
    most=SECONDS,
    spread=SHARES,
    draw=SHARES,
    growth=st.floats(1.0, 2.0),
)
def test_a_pause_stays_in_its_bounds_however_often_it_was_tried(tries, first, most, spread, draw, growth):
    found = pause(tries, first, most, spread=spread, draw=draw, growth=growth)
    assert min(first, most) * (1 - spread) <= found <= most


@given(tries=st.integers(1, 2000), first=SECONDS, most=SECONDS, spread=SHARES, draw=SHARES)
def test_with_the_same_draw_a_pause_doubles_until_it_is_the_most(tries, first, most, spread, draw):
    now, later = (pause(n, first, most, spread=spread, draw=draw) for n in (tries, tries + 1))
    longest = most * (1 - spread + spread * draw)
    assert later == pytest.approx(min(2 * now, longest))
    assert pause(tries + 60, first, most, spread=spread, draw=draw) == longest


def test_the_first_pause_needs_one_try_and_no_pause_needs_a_number_that_is_too_large():
    assert pause(0, 0.5, 60.0) == pause(1, 0.5, 60.0) == 0.5
    assert pause(10**100, 1e300, 1e305) == 1e305
    assert pause(10**100, 0.0, 60.0) == 0.0


def test_half_of_a_pause_is_chance():
    assert [pause(3, 1.0, 60.0, spread=HALF, draw=draw) for draw in (0.0, 0.5, 1.0)] == [2.0, 3.0, 4.0]


def test_a_growth_of_less_than_two():
    assert [pause(n, 0.02, 1.0, growth=1.5) for n in (1, 2, 3, 99)] == pytest.approx([0.02, 0.03, 0.045, 1.0])


def test_a_success_begins_again_with_the_first_pause():
    backoff = Backoff(0.1, 0.5)
    assert [backoff.failed() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    backoff.succeeded()
    assert backoff.failed() == 0.1


def test_each_failure_draws_anew():
    draws = iter((0.0, 1.0))
    backoff = Backoff(1.0, 8.0, spread=HALF, draw=lambda: next(draws))
    assert [backoff.failed(), backoff.failed()] == [0.5, 2.0]
