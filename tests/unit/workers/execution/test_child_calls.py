"""A waiting parent's results are read in parts, so that a worker never holds all of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from functory.workers.execution.child_calls import PART_CHARACTERS, in_parts


@given(st.lists(st.integers(0, 2 * PART_CHARACTERS), max_size=50))
def test_parts_keep_the_order_and_are_small_or_one_alone(sizes: list[int]) -> None:
    lengths = {str(number): size for number, size in enumerate(sizes)}
    parts = list(in_parts(list(lengths), lengths))
    assert [id_ for part in parts for id_ in part] == list(lengths)
    assert all(len(part) == 1 or sum(lengths[id_] for id_ in part) <= PART_CHARACTERS for part in parts)
    for one, next_ in pairwise(parts):
        assert sum(lengths[id_] for id_ in one) + lengths[next_[0]] > PART_CHARACTERS
