"""The evidence of canaries, by simulated worlds: versions that are no worse are kept, and worse ones are found soon.

The worlds are those of the study that the rules come from, with fixed seeds. Its medians are in the parameters.
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.functions import canary_events
from functory.engine.releases import canary_counts
from functory.engine.releases.canary_counts import Outcome
from functory.engine.releases.canary_evidence import (
    ASSIGNMENT,
    DEADLINE,
    RISKS,
    ROLL_BACK_AT,
    decide,
    evidence,
    log_e,
    loss,
    unmet,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class World:
    """Both versions fail at random, and take a lognormal time; the canary is ``slower`` by a factor."""

    fails: float
    canary_fails: float
    share: float = 0.1
    slower: float = 1.0
    spread: float = 0.6

    def looks(
        self, seed: int, units: int, every: int = 20
    ) -> Iterator[tuple[dict[str, Any], list[list[float]]]]:
        """The stage at each look, and the tilts of the base's durations before the start."""
        chance = random.Random(seed)
        draw, gauss = chance.random, chance.gauss
        edges, tilts = canary_counts.bins([math.exp(gauss(0, self.spread)) for _ in range(500)])
        edges = [math.log(edge) for edge in edges]
        stage = canary_counts.new_stage(self.share, START)
        counted, failed, bins = stage["units"], stage["failed"], stage["durations"]
        rates, later = (self.fails, self.canary_fails), (0.0, math.log(self.slower))
        for number in range(1, units + 1):
            arm = draw() < self.share
            counted[arm] += 1
            failed[arm] += draw() < rates[arm]
            bins[arm][bisect_left(edges, gauss(later[arm], self.spread))] += 1
            if number % every == 0:
                yield stage, tilts

    def units_until_roll_back(self, seed: int, units: int, every: int = 20) -> int | None:
        """How many units of the canary it takes; None when it is not rolled back."""
        for stage, tilts in self.looks(seed, units, every):
            if evidence([stage], tilts) >= ROLL_BACK_AT:
                return stage["units"][1]
        return None


@pytest.mark.parametrize("fails", [0.001, 0.01, 0.1])
def test_a_version_that_is_no_worse_is_hardly_ever_rolled_back(fails: float) -> None:
    world, worlds = World(fails, fails), 500
    rolled_back = [seed for seed in range(worlds) if world.units_until_roll_back(seed, 1200) is not None]
    # Nominal 1 %; the study has 0.1, 0.3 and 0.5 %.
    assert len(rolled_back) <= 0.015 * worlds


@pytest.mark.parametrize(
    ("world", "median", "units"),
    [
        (World(0.01, 0.05), 197, 6000),
        (World(0.0, 0.3), 12, 600),
        (World(0.0, 1.0), 4, 200),
        (World(0.01, 0.01, slower=2.0), 14, 600),
        (World(0.01, 0.01, slower=1.2), 188, 9000),
    ],
    ids=["five times the failures", "a third fails", "all fail", "twice as slow", "a fifth slower"],
)
def test_a_worse_version_is_found_as_soon_as_in_the_study(world: World, median: int, units: int) -> None:
    until = [world.units_until_roll_back(seed, units) for seed in range(100)]
    found = [one for one in until if one is not None]
    assert len(found) >= 0.93 * len(until)
    assert statistics.median(found) == pytest.approx(median, rel=0.2, abs=2)


def test_failures_of_both_versions_at_once_are_no_evidence() -> None:
    world = World(0.3, 0.3)
    assert sum(world.units_until_roll_back(seed, 1000, 50) is not None for seed in range(100)) <= 2


def stage_of(base: tuple[int, int], canary: tuple[int, int], share: float = 0.1) -> dict[str, Any]:
    """A stage with (units, failures) of both, which take one second each."""
    stage = canary_counts.new_stage(share, START)
    stage["units"], stage["failed"] = [base[0], canary[0]], [base[1], canary[1]]
    stage["attempt_failed"] = list(stage["failed"])
    stage["logs"] = [[units - failed, 0.0, 0.0] for units, failed in (base, canary)]
    return stage


def decision_of(
    *stages: dict[str, Any], hours: float = 1, held_for: str | None = None, **given: Any
) -> tuple[str, str] | None:
    now = START + timedelta(hours=hours)
    assigned = given.get("assigned") or [stage["units"] for stage in stages]
    found = decide(stages, [], assigned, now=now, deadline=START + timedelta(hours=72), held_for=held_for)
    return found and (found.action, found.reason)


def test_the_example_of_the_study_is_rolled_back() -> None:
    action, reason = decision_of(stage_of((1720, 17), (190, 10))) or ("", "")
    assert action == "roll_back"
    assert ": 1 against chance" in reason


def test_a_good_version_is_promoted_after_enough_units_and_enough_time() -> None:
    good = stage_of((2700, 27), (300, 3))
    assert decision_of(stage_of((2691, 27), (299, 3))) is None
    assert decision_of(good, hours=0.4) is None
    assert decision_of(good) == ("promote", "it is no worse than the base")


def test_a_version_that_may_fail_more_often_is_not_promoted() -> None:
    assert decision_of(stage_of((2700, 270), (300, 33))) is None


def test_a_version_that_may_be_slower_is_not_promoted() -> None:
    slower = stage_of((2700, 0), (300, 0))
    slower["logs"] = [[2700, 0.0, 0.0], [300, 300 * math.log(1.2), 300 * math.log(1.2) ** 2]]
    assert decision_of(slower) is None


def test_what_is_missing_for_a_promotion_is_said() -> None:
    few, many = stage_of((900, 9), (100, 1)), stage_of((2700, 27), (300, 9))
    assert unmet([few], 1.0, START + timedelta(minutes=12)) == ["100 of 300 units", "12 of 30 minutes"]
    later = START + timedelta(hours=1)
    assert unmet([many], 5.0, later) == [
        "it may be worse, 5 : 1 against chance",
        "2.1% more units may fail; 1% is allowed",
    ]
    failing = stage_of((2700, 2700), (300, 300))
    assert unmet([failing], 1.0, later) == ["one of the versions has no durations"]


def test_units_before_the_share_was_raised_do_not_promote() -> None:
    before, since = stage_of((2700, 27), (300, 3)), stage_of((100, 1), (100, 1), share=0.5)
    assert decision_of(before, since) is None


def test_evidence_of_all_shares_multiplies_for_each_alternative() -> None:
    stages = [stage_of((400, 0), (40, 5)), stage_of((100, 1), (100, 3), share=0.5)]
    ratios = []
    for risk in RISKS:
        ratio = 1.0
        for share, base, canary in ((0.1, 0, 5), (0.5, 1, 3)):
            theta = share * risk / (share * risk + 1 - share)
            ratio *= (theta / share) ** canary * ((1 - theta) / (1 - share)) ** base
        ratios.append(ratio)
    failed = sum(ratios) / len(ratios)
    # The failures of attempts are the same here, and there are no durations.
    assert evidence(stages, []) == pytest.approx((failed + failed + 1) / 3)


def test_without_units_nothing_is_decided_until_the_deadline() -> None:
    assert decision_of(stage_of((0, 0), (0, 0)), hours=71.9) is None
    assert decision_of(stage_of((0, 0), (0, 0)), hours=72) == ("hold", DEADLINE)


def test_units_that_are_missing_from_one_version_hold_it() -> None:
    assert decision_of(stage_of((300, 0), (0, 0))) == ("hold", ASSIGNMENT)
    # Those that are open count, too: a slow version is no wrong assignment.
    assert decision_of(stage_of((300, 0), (0, 0)), assigned=[[300, 33]]) is None


def test_one_that_is_held_is_rolled_back_but_never_promoted() -> None:
    good, bad = stage_of((2700, 27), (300, 3)), stage_of((1720, 17), (190, 10))
    assert decision_of(good, held_for="held by ada") is None
    assert decision_of(bad, held_for=DEADLINE) is not None
    assert decision_of(bad, held_for=ASSIGNMENT) is None, "the evidence rests on the assignment"


def test_the_ratio_of_one_unit_has_the_mean_one_if_the_version_does_not_matter() -> None:
    for share in (0.05, 0.5):
        for tilt in (1.5, 30.0, 0.5):
            (hit,) = log_e((1,), (0,), [(tilt,)], share)
            (missed,) = log_e((0,), (1,), [(tilt,)], share)
            assert share * math.exp(hit) + (1 - share) * math.exp(missed) == pytest.approx(1)


def test_the_expected_loss_shrinks_with_units() -> None:
    losses = [loss(units // 100, units, units // 100, units) for units in (100, 1000, 10_000)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.001 < losses[0]


def test_counts_of_units_go_to_their_share_and_arm() -> None:
    stages = [canary_counts.new_stage(0.1, START), canary_counts.new_stage(0.5, START)]
    edges, _ = canary_counts.bins([number / 100 for number in range(1, 101)])
    found = canary_counts.add(
        stages,
        edges,
        [
            Outcome(True, 0, failed=True, attempt_failed=True),
            Outcome(True, 1, attempt_failed=True, seconds=0.95),
            Outcome(False, 1, seconds=0.005),
            Outcome(False, 1, left_out=True),
        ],
    )
    assert stages == [canary_counts.new_stage(0.1, START), canary_counts.new_stage(0.5, START)]
    assert found[0]["units"] == [0, 1] and found[0]["failed"] == [0, 1]
    assert found[1]["units"] == [1, 1] and found[1]["left_out"] == [1, 0]
    assert canary_events.counts(found)["canary"] == {
        "units": 2, "failed": 1, "attempt_failed": 2, "left_out": 0
    }  # fmt: skip
    assert found[1]["durations"][0][0] == 1 and found[1]["durations"][1][9] == 1


def test_too_few_durations_make_no_bins() -> None:
    assert canary_counts.bins([1.0] * 49) == ([], [])


def test_slower_tenths_are_never_rarer_than_faster_ones() -> None:
    chance = random.Random(1)
    _, tilts = canary_counts.bins([chance.lognormvariate(0, 1) for _ in range(500)])
    assert all(tilt == sorted(tilt) for tilt in tilts)
    assert all(tilt[-1] > 1 for tilt in tilts)
