"""The assignment of units to the version of a canary."""

from __future__ import annotations

import pytest

from functory.engine.functions.canary_assignment import assign, is_of_canary, subject_of_chain, unit_of

SALT = "00112233445566778899aabbccddeeff"
UNITS = [f"order-{number}" for number in range(20_000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_canary_gets_its_share(share: float) -> None:
    got = sum(assign(unit, SALT, share).is_canary for unit in UNITS)
    deviation = (len(UNITS) * share * (1 - share)) ** 0.5
    assert abs(got - len(UNITS) * share) < 4 * deviation


def test_a_unit_keeps_its_version_when_the_share_grows() -> None:
    small = {unit for unit in UNITS[:2000] if assign(unit, SALT, 0.1).is_canary}
    large = {unit for unit in UNITS[:2000] if assign(unit, SALT, 0.3).is_canary}
    assert small < large


def test_another_salt_chooses_other_units() -> None:
    chosen = [
        {unit for unit in UNITS[:2000] if assign(unit, salt, 0.5).is_canary} for salt in (SALT, "ff" * 16)
    ]
    assert 400 < len(chosen[0] & chosen[1]) < 600


def test_the_stored_hash_says_the_arm() -> None:
    for unit in UNITS[:100]:
        arm = assign(unit, SALT, 0.2)
        assert is_of_canary(arm.unit, 0.2) is arm.is_canary
        assert len(arm.unit) == 16


def test_a_share_of_nothing_and_of_everything() -> None:
    assert not any(is_of_canary(assign(unit, SALT, 0).unit, 0) for unit in UNITS[:1000])
    assert all(is_of_canary(assign(unit, SALT, 0).unit, 1) for unit in UNITS[:1000])


def test_the_unit_is_the_root_unless_a_subject_is_asked_for_and_there() -> None:
    assert unit_of("root", "r", "s") == "r"
    assert unit_of("subject", "r", "s") == "s"
    assert unit_of("subject", "r", None) == "r"
    assert subject_of_chain([{"subject": "a"}, {"subject": "b"}]) == "b"
    assert subject_of_chain([]) is None


def test_any_text_is_a_unit() -> None:
    assert assign("\ud800\x00ü", SALT, 0.5).unit != assign("", SALT, 0.5).unit
