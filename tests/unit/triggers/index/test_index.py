"""The index answers as a plain scan does, and finds what it seeks in few buckets."""

import json
import sys
from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.triggers.index import Index
from functory.triggers.index.lookup_keys import fold, foldable
from functory.triggers.patterns import compile_pattern, flatten
from tests.support.thoroughness import amount

VECTORS = Path(__file__).parents[3] / "data" / "pattern_vectors.json"


def index_of(*patterns: dict) -> Index:
    """An index of these patterns, each under its position."""
    index = Index()
    for key, pattern in enumerate(patterns):
        index.add(key, compile_pattern(pattern))
    return index


def test_it_returns_the_keys_of_the_patterns_that_match_each_once():
    index = index_of(
        {"type": ["a"]},
        {"type": ["b"]},
        {"type": [{"exists": True}], "tags": ["x", "y"]},
        {"$or": [{"type": ["a"]}, {"tags": ["x"]}]},
    )
    assert sorted(index.match({"type": "a", "tags": ["x", "y"]})) == [0, 2, 3]
    assert index.match({"type": "c"}) == []
    assert index.match({}) == []


def test_an_event_may_be_flattened_before():
    index = index_of({"a": {"b": [1]}})
    assert index.match(flatten({"a": {"b": 1}})) == [0]


@pytest.mark.parametrize("event", [[], None, {"a": {1: 2}}, {"a": object()}])
def test_an_event_that_is_not_json_is_refused_where_a_pattern_looks_at_it(event):
    with pytest.raises(Invalid):
        index_of({"a": {"b": [1]}}).match(event)


def test_a_pattern_under_a_known_key_replaces_the_older_one():
    index = index_of({"type": ["a"]})
    assert index.match({"type": "a"}) == [0]
    index.add(0, compile_pattern({"type": ["b"]}))
    assert (index.match({"type": "a"}), index.match({"type": "b"}), len(index)) == ([], [0], 1)


def test_a_removed_pattern_leaves_nothing_behind():
    index = index_of(
        {"a": {"b": [{"prefix": "x"}]}},
        {"a": {"c": [{"exists": False}]}},
        {"a": {"d": [{"numeric": [">", 1, "<", 5]}]}},
        {"e": ["10.0.0.1", {"cidr": "10.1.0.0/16"}]},
    )
    assert sorted(index.match({"a": {"b": "xy", "d": 3}, "e": "10.1.2.3"})) == [0, 1, 2, 3]
    assert len(index._postings) == 4
    for key in range(5):
        index.discard(key)
    assert index.match({"a": {"b": "xy", "d": 3}, "e": "10.1.2.3"}) == []
    assert len(index) == len(index._postings) == 0


def test_thousands_of_patterns_of_one_type_are_distinguished_by_what_is_rare():
    index = Index()
    for n in range(2000):
        index.add(n, compile_pattern({"type": ["order.placed"], "sku": [f"sku-{n}"]}))
    for n in range(0, 2000, 10):
        assert index.match({"type": "order.placed", "sku": f"sku-{n}"}) == [n]
        assert index.candidates({"type": "order.placed", "sku": f"sku-{n}"}) == 1


def test_an_absent_path_is_looked_up_by_only_when_there_is_nothing_else():
    index = Index()
    for n in range(200):
        index.add(n, compile_pattern({"gone": [{"exists": False}], "sku": [f"sku-{n}"]}))
        index.match({"sku": f"sku-{n}"})
    assert index.candidates({"sku": "none"}) == 0
    index.add("only", compile_pattern({"gone": [{"exists": False}]}))
    assert sorted(index.match({"sku": "sku-7"}), key=str) == [7, "only"]
    assert index.candidates({"sku": "none"}) == 1


def test_a_value_that_many_patterns_ask_for_is_expected_in_many_events():
    """Twenty teams tell more apart than four environments; but nearly all patterns ask for one of the teams."""
    index = Index()
    for n in range(400):
        team = "core" if n % 20 else f"team-{n // 20}"
        index.add(n, compile_pattern({"team": [team], "env": [f"env-{n % 4}"]}))
    assert index.candidates({"team": "core", "env": "none"}) == 0
    assert index.candidates({"team": "team-7", "env": "none"}) == 1


def test_buckets_chosen_while_triggers_are_added_and_removed_answer_as_those_of_a_first_load():
    index, other = Index(), Index()
    index.match({})
    for n in range(300):
        pattern = compile_pattern({"state": [f"s{n % 16}"], "city": [f"c{n // 16}"]})
        index.add(n, pattern)
        other.add(n, pattern)
        if n % 3 == 0:
            index.discard(n // 2)
            other.discard(n // 2)
    for n in range(300):
        event = {"state": f"s{n % 16}", "city": f"c{n // 16}"}
        assert index.match(event) == other.match(event)
    assert len(index) == len(other)


def test_all_vectors_in_one_index_are_answered_as_one_by_one():
    cases = [
        case
        for case in json.loads(VECTORS.read_text())["cases"]
        if not case.get("lossy") and not case.get("quirk")
    ]
    patterns = {case["id"]: compile_pattern(json.loads(case["pattern"])) for case in cases}
    index = Index()
    for id_, pattern in patterns.items():
        index.add(id_, pattern)
    assert len(cases) == 2890
    for case in cases[:: amount(20, 1)]:
        event = json.loads(case["event"])
        found = index.match(event)
        assert (case["id"] in found) is case["match"]
        assert len(found) == len(set(found))
    for case in cases[:: amount(500, 50)]:
        flat = flatten(json.loads(case["event"]))
        assert set(index.match(json.loads(case["event"]))) == {
            k for k, p in patterns.items() if p.matches(flat)
        }


def test_every_spelling_of_a_text_in_another_case_folds_to_the_same():
    different = [
        c for c in map(chr, range(sys.maxunicode + 1)) if not fold(c) == fold(c.lower()) == fold(c.upper())
    ]
    assert different == ["ẞ"]
    assert not foldable("ẞ")


def test_the_fold_of_a_text_is_the_fold_of_its_characters():
    for text in ("ὈΔΥΣΣΕΎΣ", "ΣΑΣ Σ", "İstanbul", "straße", "ﬃ", "K\u0307\u03c3ς"):
        assert fold(text) == "".join(map(fold, text))
