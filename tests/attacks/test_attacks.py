"""Every attack in every tier that this machine has, as root and as an ordinary user; and without a sandbox.

The id of a test is the tier and the attack: ``A-A08``. ``root-C`` is tier C for a worker that is root, as in a
container. The tests of ``teeth`` run the same code with no sandbox, where it has to succeed: an attack that fails
there shows nothing when it fails in a sandbox.

``make test`` runs each attack once, in the strongest tier of this machine; ``make test-all`` runs all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.case import STOPPED, SUCCEEDS, Case, Report
from tests.attacks.catalogue import CASES
from tests.attacks.runner_process import Remote
from tests.services.missing_servers import strict
from tests.support import unprivileged
from tests.support.tier_marks import lacks

# Name of the world: its tier, and whether its worker is a user without rights.
WORLDS = {
    "A": ("A", False),
    "B": ("B", True),
    "C": ("C", True),
    "root-C": ("C", False),
    "none": ("none", True),
}
_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[str, Remote]]:
    started: dict[str, Remote] = {}
    yield started
    for remote in started.values():
        remote.close()


def attacked(worlds: dict[str, Remote], world: str, case_id: str) -> Report:
    """Return the report of one attack; skip with the reason where it cannot be tried."""
    tier, as_ordinary = WORLDS[world]
    case = CASES[case_id]
    if case.machine and case.machine != os.uname().machine:
        pytest.skip(f"only on {case.machine}")
    if world in ("A", "root-C") and not _ROOT:
        pytest.skip("these tests are not run as root")
    if as_ordinary and _ROOT and world not in worlds and (why := unprivileged.missing()):
        pytest.skip(f"no ordinary user: {why}")
    if world in worlds and worlds[world].lost:
        worlds.pop(world).close()
    if world not in worlds:
        worlds[world] = Remote(tier, as_ordinary)
    if worlds[world].missing:
        message = f"no tier {tier} here: {worlds[world].missing}"
        if strict() and tier != "none" and _ROOT:
            pytest.fail(f"{message} (STRICT=1 asks for it where the tests are root)", pytrace=False)
        pytest.skip(message)
    return worlds[world].run(case_id)


def _strongest(case: Case) -> str:
    """Return the world with the strongest tier in which this machine can show an attack."""
    shown = [
        world
        for world, (tier, _) in WORLDS.items()
        if tier != "none" and tier in case.tiers and not lacks(tier)
    ]
    return next(iter(shown), "")


def _in(world: str, case: Case) -> Any:
    """Build the parameter of an attack in a world: quick in the strongest tier, long in each of the others."""
    marks = () if world == _strongest(case) else (pytest.mark.long(0.5),)
    return pytest.param(world, case.id, id=f"{world}-{case.id}", marks=marks)


@pytest.mark.parametrize(
    ("world", "case_id"),
    [
        _in(world, case)
        for world, (tier, _) in WORLDS.items()
        for case in CASES.values()
        if tier in case.tiers
    ],
)
def test_the_attack_is_stopped(worlds: dict[str, Remote], world: str, case_id: str) -> None:
    case = CASES[case_id]
    report = attacked(worlds, world, case_id)
    assert case.problems(report) == [], f"{case.id}: {case.title}\n{report}"


def test_some_tier_was_attacked(worlds: dict[str, Remote]) -> None:
    """Some tier was attacked: skips alone would look like a sandbox that holds."""
    tried = [name for name, remote in worlds.items() if not remote.missing and WORLDS[name][0] != "none"]
    if not tried and not strict():
        pytest.skip("no tier here, or no attack of one was asked for")
    assert tried, "STRICT=1, and no tier of this machine was attacked"


@pytest.mark.long(0.7)
@pytest.mark.parametrize("case_id", [case.id for case in CASES.values() if case.without == SUCCEEDS])
def test_the_attack_has_teeth(worlds: dict[str, Remote], case_id: str) -> None:
    case = CASES[case_id]
    report = attacked(worlds, "none", case_id)
    assert case.toothless(report) == [], f"{case.id}: {case.title}\n{report}"


@pytest.mark.long(0.7)
@pytest.mark.parametrize("case_id", [case.id for case in CASES.values() if case.without == STOPPED])
def test_the_attack_is_stopped_by_process_and_protocol_alone(worlds: dict[str, Remote], case_id: str) -> None:
    case = CASES[case_id]
    report = attacked(worlds, "none", case_id)
    assert case.problems(report) == [], f"{case.id}: {case.title}\n{report}"
