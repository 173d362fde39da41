"""Functions get unused ids, by the maps of a machine and of containers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from functory.workers.sandbox.confinement.user_ids import pick

WHOLE = "         0          0 4294967295\n"
CONTAINER = "         0       1000          1\n         1     100000      65536\n"


@pytest.mark.parametrize("seed", [0, 1, 7, 4194304, 2**40])
def test_a_whole_machine_gives_ids_that_nothing_else_uses(seed: int) -> None:
    first = pick(WHOLE, WHOLE, 257, seed)
    assert first >= 0x70000000
    assert first + 257 <= 0x7FFE0000


def test_different_seeds_give_blocks_that_do_not_overlap() -> None:
    for maps in (WHOLE, CONTAINER):
        firsts = sorted(pick(maps, maps, 257, seed) for seed in range(200))
        assert all(after - before >= 257 for before, after in pairwise(firsts))


@pytest.mark.parametrize("seed", range(0, 1000, 37))
def test_a_container_gives_what_it_has_but_no_user_of_its_own(seed: int) -> None:
    first = pick(CONTAINER, CONTAINER, 257, seed)
    assert first >= 10_000
    assert first + 257 <= 65537
    assert 65534 not in range(first, first + 257)


def test_both_maps_must_have_the_block() -> None:
    first = pick(CONTAINER, "0 5000 40000\n", 257, 3)
    assert first >= 10_000
    assert first + 257 <= 40_000


@pytest.mark.parametrize("uids", ["0 1000 1\n", "0 1000 1000\n", "1000 1000 1\n", "\n"])
def test_too_few_ids_are_an_error(uids: str) -> None:
    with pytest.raises(OSError, match="no 257 free ids"):
        pick(uids, WHOLE, 257, 0)
