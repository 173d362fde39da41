"""Short ids: the first characters of an id stand for a range of ids in which it lies."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.database import short_ids
from functory.engine.database.clock import lowest_id, new_id, time_of_id

# Milliseconds of April 2022 to August 2039, whose short ids begin with 06 and 07.
TIMES = st.integers(6 << 38, (8 << 38) - 1)


def made(milliseconds: int, fraction: int, rest: int) -> str:
    return str(uuid.UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | rest))


@given(TIMES, st.integers(0, 0xFFF), st.integers(0, 2**62 - 1), st.integers(4, 10))
def test_each_beginning_of_a_short_id_is_a_range_with_the_id(
    milliseconds: int, fraction: int, rest: int, length: int
) -> None:
    id_ = made(milliseconds, fraction, rest)
    short = short_ids.short(id_)
    assert len(short) == short_ids.LENGTH
    for text in (short[:length], short[:length].upper()):
        assert any(part.low <= id_ <= part.high for part in short_ids.ranges(text))


@given(TIMES, TIMES, st.integers(0, 0xFFF), st.integers(0, 0xFFF))
def test_ids_with_other_times_are_outside_of_the_range_of_a_whole_short_id(
    one: int, other: int, first: int, second: int
) -> None:
    # Eight years and nine months later the ten characters come again, because 06 and 07 are left out of them.
    if (one, first) == (other, second) or abs(one - other) >= 1 << 38:
        return
    short = short_ids.short(made(one, first, 0))
    other_id = made(other, second, 0)
    assert not any(part.low <= other_id <= part.high for part in short_ids.ranges(short))


def test_short_ids_sort_as_their_ids_do() -> None:
    ids = sorted(made(1_795_000_000_000 + n * 7_919, n * 31 % 4096, n) for n in range(500))
    assert [short_ids.short(id_) for id_ in ids] == sorted(short_ids.short(id_) for id_ in ids)


def test_what_was_made_long_ago_keeps_all_of_its_characters() -> None:
    old = made(0, 0, 0)
    assert short_ids.short(old) == "0" * 12
    assert [part.low for part in short_ids.ranges("0" * 12)] == [old]


def test_letters_that_look_like_digits_are_read_as_those() -> None:
    assert short_ids.ranges("h0li") == short_ids.ranges("h011") == short_ids.ranges("HOL1")


@pytest.mark.parametrize("text", ["", "h0d", "h0d1cef8h6h6h", "h0du", "h0d-", "execution", "@last", "h 0d1"])
def test_what_cannot_begin_an_id_has_no_range(text: str) -> None:
    assert short_ids.ranges(text) == []


def test_the_beginning_of_a_uuid_is_known_by_its_dash() -> None:
    id_ = new_id()
    for length in (9, 13, 20, 36):
        assert any(part.low <= id_ <= part.high for part in short_ids.ranges(id_[:length]))
    assert short_ids.is_full(id_) and short_ids.is_full(id_.replace("-", ""))
    assert not short_ids.is_full(id_[:35])


def test_a_range_begins_at_the_time_of_its_characters() -> None:
    id_ = new_id()
    (part, _) = short_ids.ranges(short_ids.short(id_))
    assert time_of_id(part.low) == time_of_id(part.high) == time_of_id(id_)
    assert part.low >= lowest_id(time_of_id(id_))
