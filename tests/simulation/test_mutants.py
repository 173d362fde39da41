"""The simulation finds each mutant: a defect that is put into the engine on purpose."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.engine import mutants
from tests.simulation.engine.mutants import Edit, Moved, Mutant

SEEDS = 600


@pytest.mark.timeout(900)
def test_every_mutant_is_caught():
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--mutants", "--seeds", str(SEEDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == len(mutants.MUTANTS)


@pytest.mark.parametrize("name", [one.name for one in mutants.MUTANTS])
def test_the_code_of_every_mutant_is_there(name):
    """So that a move is seen at once, and not by the long test."""
    with mutants.named(name).applied():
        pass


def test_a_mutant_of_code_that_has_moved_says_so():
    moved = Mutant(
        "moved", [Edit("functory.engine.events.causation", "check_fence", "a text that is not there", "")]
    )
    with pytest.raises(Moved, match="must be written anew"), moved.applied():
        pass


def test_the_engine_is_whole_again_after_a_mutant():
    from functory.engine.events import causation

    before = causation.check_fence
    with mutants.named("a zombie may emit").applied():
        assert causation.check_fence is not before
    assert causation.check_fence is before
