"""The checks of proposals, run by an embedded worker in the real sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from functory import Functory
from functory.engine.errors import Conflict, Invalid
from tests.support.gate import check, ended

pytest_plugins = ["tests.support.world"]

SLUGIFY = """
def slugify(text: str) -> str:
    words = text.lower().split()
    return "-".join(words)
"""
GOOD_TESTS = [
    {"input": {"text": "Good Day"}, "equals": "good-day"},
    {"name": "of nothing", "input": {"text": " "}, "equals": ""},
    {"code": "def test_one_word():\n    assert slugify('One') == 'one'\n"},
]


def propose(engine: Functory, source: str, tests: Any = GOOD_TESTS, **more: Any) -> str:
    engine.start()
    return engine.proposals.create(source, tests=tests, author="ada", **more)["id"]


def test_a_version_becomes_active_when_its_tests_pass_see_faults_and_a_person_approves(
    engine: Functory,
) -> None:
    id_ = propose(engine, SLUGIFY, description="Makes names for addresses")
    found = ended(engine, id_, "waiting")
    assert [one["state"] for one in found["checks"]] == ["passed"] * 4
    assert [one["verdict"] for one in check(found, "tests")["report"]["tests"]] == ["passed"] * 3
    seen = check(found, "mutants")["report"]
    assert seen["seen"] == seen["made"] - len(seen["unseen"]) and seen["share"] >= 0.6
    with pytest.raises(Exception, match="no active version"):
        engine.call("slugify", "Good Day")
    with pytest.raises(Conflict, match="has not passed the gate"):
        engine.functions.activate("slugify", 1)
    engine.proposals.approve(id_, author="bob")
    assert engine.proposals.get(id_)["state"] == "active"
    assert engine.call("slugify", "Good Day") == "good-day"


@pytest.mark.parametrize(
    ("tests", "check_name", "reason"),
    [
        ([], "tests", "has no tests"),
        ([{"input": {"text": "A b"}, "equals": "a_b"}], "tests", 'expected "a_b"; it gave "a-b"'),
        ([{"input": {"text": "A"}, "matches": {}}], "mutants", "only gives None"),
        ([{"code": "def test_it():\n    slugify('A b')\n"}], "mutants", "only gives None"),
        ([{"code": "def test_it():\n    assert slugify('A b') is not None\n"}], "mutants", "are needed"),
    ],
)
def test_what_tests_do_not_show_is_rejected(
    engine: Functory, tests: Any, check_name: str, reason: str
) -> None:
    found = ended(engine, propose(engine, SLUGIFY, tests), "rejected")
    assert check(found, check_name)["state"] == "failed"
    assert reason in found["reason"]
    assert engine.functions.get("slugify", 1)["active"] is None


def test_a_test_gets_no_right_and_has_no_effect(engine: Functory) -> None:
    source = """
def pay(amount: int):
    from functory import emit, state, secret, call
    emit("paid", {"amount": amount})
    state.set("last", amount)
    try:
        secret("BANK")
    except Exception:
        pass
    return state.get("last")
"""
    before = len(engine.events.list(limit=500))
    found = ended(
        engine, propose(engine, source, [{"input": {"amount": 3}, "equals": 3}], secrets=["BANK"]), "waiting"
    )
    (test,) = check(found, "tests")["report"]["tests"]
    assert (test["verdict"], test["message"]) == ("unknown", "it asked for the secret BANK")
    assert check(found, "mutants")["state"] == "warned"
    types = [row["type"] for row in engine.events.list(limit=500)]
    assert "paid" not in types and len(types) > before
    assert engine.state.get("pay", "last") is None


def test_answers_of_a_test_stand_for_the_world(engine: Functory) -> None:
    source = """
def shout(text: str) -> str:
    from functory import call, llm
    return call("louder", text) + llm("more", model="small")["text"]
"""
    answers = {"calls": {"louder": ["HI"]}, "models": ["!"]}
    tests = [{"input": {"text": "hi"}, "answers": answers, "equals": "HI!"}]
    engine.gate_policies.set("all", {"mutants": 0.3}, author="ada")
    found = ended(engine, propose(engine, source, tests), "waiting")
    assert check(found, "tests")["state"] == "passed", found["checks"]


def test_a_repair_shows_a_test_that_the_active_version_fails(engine: Functory) -> None:
    engine.functions.save("def half(n: int) -> float:\n    return n // 2\n", author="ada")
    mended = "def half(n: int) -> float:\n    return n / 2\n"
    tests = [{"input": {"n": 3}, "equals": 1.5}, {"input": {"n": 4}, "equals": 2}]
    with pytest.raises(Conflict, match="replaces=True"):
        propose(engine, mended, tests)
    found = ended(engine, propose(engine, mended, tests, replaces=True), "waiting")
    assert check(found, "tests")["report"]["base"] == {"version": 1, "passed": 1, "failed": 1, "unknown": 0}
    assert engine.call("half", 3) == 1
    engine.proposals.approve(found["id"], author="bob")
    assert engine.call("half", 3) == 1.5


def test_code_that_hangs_or_breaks_the_sandbox_is_a_failed_test(engine: Functory) -> None:
    hangs = "def spin(n: int) -> int:\n    while n:\n        pass\n    return n\n"
    found = ended(
        engine, propose(engine, hangs, [{"input": {"n": 1}, "equals": 0}], limits={"timeout": 1}), "rejected"
    )
    assert "timed out" in found["reason"]


def test_wrong_tests_are_refused_before_anything_is_stored(engine: Functory) -> None:
    for tests, message in (
        ([{"input": {}}], "expects nothing"),
        ([{"input": [], "equals": 1}], "wrong input"),
        ([{"code": "def slugify():\n    pass\n"}], "as the one that it tests"),
        ([{"code": "def t(x):\n    pass\n"}], "has parameters"),
        ([{"equals": 1, "tells": 2}], "no field"),
        ([{"name": "a", "equals": 1}, {"name": "a", "equals": 1}], "two tests"),
    ):
        with pytest.raises(Invalid, match=message):
            propose(engine, SLUGIFY, tests)
    assert engine.proposals.list() == []
    assert engine.functions.list() == []


def test_a_test_function_gets_the_errors_and_the_values_of_the_function(engine: Functory) -> None:
    source = """
def half(n: int, *, exact: bool = False) -> float:
    if n < 0:
        raise ValueError("negative")
    return n / 2 if exact else n // 2
"""
    code = """
def test_half():
    assert half(4) == 2
    assert half(n=3, exact=True) == 1.5
    try:
        half(-1)
    except ValueError as error:
        assert str(error) == "negative"
    else:
        raise AssertionError("no error")
"""
    found = ended(engine, propose(engine, source, [{"code": code}]), "waiting")
    assert check(found, "tests")["state"] == "passed"
    asynchronous = "async def soon(n: int) -> int:\n    return n + 1\n"
    code = "async def test_soon():\n    assert await soon(1) == 2\n"
    engine.gate_policies.set("all", {"mutants": 0.3}, author="ada")
    ended(engine, propose(engine, asynchronous, [{"code": code}]), "waiting")
