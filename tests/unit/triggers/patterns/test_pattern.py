"""The pattern language: what matches, what is refused, and how a pattern explains itself."""

import json
from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.triggers.patterns import FALSE, TRUE, compile_pattern, flatten
from functory.triggers.patterns.conformance import run_vectors

VECTORS = Path(__file__).parents[3] / "data" / "pattern_vectors.json"


def matches(elements: list, value: object) -> bool:
    return compile_pattern({"a": elements}).matches({"a": value})


def test_every_vector_that_a_json_parser_can_hold_is_answered_as_event_ruler_answers_it():
    result = run_vectors(VECTORS)
    assert result == {
        "right": 2890,
        "wrong": 0,
        "invalid_refused": 60,
        "invalid_accepted": 0,
        "skipped": 145,
        "wrong_ids": [],
    }


def test_wrong_vectors_are_counted_and_named(tmp_path):
    file = tmp_path / "vectors.json"
    cases = [
        {"id": "right", "pattern": '{"a":[1]}', "event": '{"a":1}', "match": True},
        {"id": "wrong", "pattern": '{"a":[1]}', "event": '{"a":1}', "match": False},
        {"id": "refused", "pattern": '{"a":[]}', "event": '{"a":1}', "match": False},
        {"id": "skipped", "pattern": '{"a":[1]}', "event": '{"a":1}', "match": False, "quirk": "odd"},
    ]
    invalid = [{"id": "good", "pattern": '{"a":[1]}'}, {"id": "no JSON", "pattern": "{a}"}]
    file.write_text(json.dumps({"cases": cases, "invalid": invalid}))
    assert run_vectors(file) == {
        "right": 1,
        "wrong": 2,
        "invalid_refused": 1,
        "invalid_accepted": 1,
        "skipped": 1,
        "wrong_ids": ["wrong", "refused", "good"],
    }


@pytest.mark.parametrize("text", ["[]", "{}", "x", '{"cases": [1], "invalid": []}', '{"cases": {}}'])
def test_a_file_without_vectors_is_refused(tmp_path, text):
    file = tmp_path / "vectors.json"
    file.write_text(text)
    with pytest.raises(Invalid, match="holds no pattern vectors"):
        run_vectors(file)


@pytest.mark.parametrize(
    ("elements", "value", "expected"),
    [
        (["x"], "x", True),
        (["x"], "X", False),
        (["x", "y"], "y", True),
        (["x"], ["w", "x"], True),
        (["300"], 300, False),
        ([300], "300", False),
        ([300], 300.0, True),
        ([0], -0.0, True),
        ([1], True, False),
        ([True], 1, False),
        ([True], True, True),
        ([False], 0, False),
        ([None], None, True),
        ([None], "null", False),
        ([2**53 + 1], 2**53, False),
        ([2**53 + 1], 2**53 + 1, True),
        ([10**400], 10**400, True),
        (["10.0.0.1"], "010.0.0.1", True),
        (["::1"], "0:0:0:0:0:0:0:1", True),
        ([{"exactly": "10.0.0.1"}], "010.0.0.1", False),
        ([{"prefix": "ab"}], "abc", True),
        ([{"prefix": "ab"}], "xab", False),
        ([{"prefix": ""}], "", True),
        ([{"prefix": "1"}], 1, False),
        ([{"suffix": "bc"}], "abc", True),
        ([{"prefix": {"equals-ignore-case": "aB"}}], "AbC", True),
        ([{"suffix": {"equals-ignore-case": "Bß"}}], "abSS", True),
        ([{"suffix": {"equals-ignore-case": "Bß"}}], "abss", False),
        ([{"suffix": {"equals-ignore-case": ""}}], "", True),
        ([{"equals-ignore-case": "ß"}], "SS", True),
        ([{"equals-ignore-case": "k"}], "\u212a", False),
        ([{"equals-ignore-case": "😀"}], "😀", True),
        ([{"equals-ignore-case": "a.c"}], "ABC", False),
        ([{"wildcard": "a*c"}], "ac", True),
        ([{"wildcard": "a*c"}], "a\nbc", True),
        ([{"wildcard": "ab*bc"}], "abc", False),
        ([{"wildcard": "*a*b*"}], "xbxaxbx", True),
        ([{"wildcard": "*a*b*"}], "bbbaaa", False),
        ([{"wildcard": r"a\*\\"}], "a*\\", True),
        ([{"wildcard": ""}], "", True),
        ([{"wildcard": "*"}], 5, False),
        ([{"numeric": ["<", 5]}], 4.999, True),
        ([{"numeric": ["<", 5]}], 5, False),
        ([{"numeric": [">=", 5, "<", 7]}], 5, True),
        ([{"numeric": [">", 0]}], True, False),
        ([{"numeric": [">", 0]}], "1", False),
        ([{"numeric": [">", 0]}], float("inf"), False),
        ([{"numeric": ["<", 0]}], float("nan"), False),
        ([{"numeric": [">", 0]}], 2**53 + 1, False),  # no double holds it, so it has no place in an order
        ([{"numeric": [">", 0]}], 2**53 + 2, True),
        ([{"numeric": [">", 0]}], 10**400, False),
        ([{"numeric": ["=", 3]}], 3.0, True),
        ([{"anything-but": "x"}], "y", True),
        ([{"anything-but": "x"}], "x", False),
        ([{"anything-but": "x"}], 5, True),
        ([{"anything-but": "x"}], None, True),
        ([{"anything-but": ["x", "y"]}], ["x", "y"], False),
        ([{"anything-but": "x"}], ["x", "y"], True),
        ([{"anything-but": 1}], True, True),
        ([{"anything-but": {"prefix": ["a", "b"]}}], "bc", False),
        ([{"anything-but": {"suffix": "c"}}], 5, True),
        ([{"anything-but": {"wildcard": "a*c"}}], "abc", False),
        ([{"anything-but": {"equals-ignore-case": "ABC"}}], "abc", False),
        ([{"exists": True}], None, True),
        ([{"exists": True}], {}, False),
        ([{"exists": True}], [[]], False),
        ([{"exists": False}], [], True),
        ([{"exists": False}], 0, False),
        (["x", {"exists": False}], "y", False),
        ([{"cidr": "10.0.0.77/8"}], "10.255.0.1", True),
        ([{"cidr": "10.0.0.0/8"}], "11.0.0.0", False),
        ([{"cidr": "0.0.0.0/0"}], "::1", False),
        ([{"cidr": "2001:db8::/32"}], "2001:0db8::5", True),
        ([{"cidr": "::/0"}], "::ffff:1.2.3.4", False),
    ],
)
def test_one_value(elements, value, expected):
    assert matches(elements, value) is expected


def test_an_absent_member_satisfies_only_exists_false():
    assert compile_pattern({"a": [{"exists": False}]}).matches({"b": 1})
    assert compile_pattern({"a": ["x", {"exists": False}]}).matches({"b": 1})
    assert not compile_pattern({"a": [{"anything-but": "x"}]}).matches({"b": 1})
    assert not compile_pattern({"a": [None]}).matches({"b": 1})


def test_names_with_dots_and_nesting_are_the_same_path():
    assert compile_pattern({"a.b": [1]}).matches({"a": {"b": 1}})
    assert compile_pattern({"a": {"b": [1]}}).matches({"a.b": 1})
    assert compile_pattern({"a": {"": ["x"]}}).matches({"a": {"": "x"}})


def test_or_takes_one_of_its_alternatives_together_with_what_is_outside():
    pattern = compile_pattern({"t": ["x"], "d": {"$or": [{"a": [1]}, {"b": [{"numeric": [">", 5]}]}]}})
    assert pattern.matches({"t": "x", "d": {"a": 1}})
    assert pattern.matches({"t": "x", "d": {"b": 6}})
    assert not pattern.matches({"t": "x", "d": {"a": 2, "b": 5}})
    assert not pattern.matches({"t": "y", "d": {"a": 1}})


def test_several_or_multiply():
    pattern = compile_pattern({"$or": [{"a": [1]}, {"b": [1]}], "d": {"$or": [{"x": [1]}, {"y": [1]}]}})
    assert {frozenset(r.path for r in branch.requirements) for branch in pattern.branches} == {
        frozenset(pair) for pair in (("a", "d.x"), ("a", "d.y"), ("b", "d.x"), ("b", "d.y"))
    }


def test_a_path_that_is_tested_twice_counts_as_the_later_and_warns():
    pattern = compile_pattern({"a": [1], "$or": [{"a": [2]}, {"b": [1]}]})
    assert pattern.matches({"a": 2})
    assert pattern.warnings == ('"a" is tested twice in one branch; only the later test counts',)
    assert compile_pattern({"a": [1], "b": [1]}).warnings == ()


def test_values_must_come_from_the_same_element_of_an_array():
    pattern = compile_pattern({"items": {"sku": ["A"], "stock": [0]}})
    assert pattern.matches({"items": [{"sku": "B", "stock": 1}, {"sku": "A", "stock": 0}]})
    assert not pattern.matches({"items": [{"sku": "A", "stock": 9}, {"sku": "B", "stock": 0}]})


def test_absence_is_judged_within_the_chosen_element():
    pattern = compile_pattern({"x": {"a": [1], "b": [{"exists": False}]}})
    assert pattern.matches({"x": [{"a": 1}, {"b": 2}]})
    assert not pattern.matches({"x": [{"a": 1, "b": 2}]})
    assert not pattern.matches({"x": [{"a": 2}, {"b": 2}]})


def test_a_value_outside_of_the_array_leaves_the_element_open():
    pattern = compile_pattern({"a": {"b": [1], "c": [2], "d": [{"exists": False}]}})
    assert pattern.matches({"a.b": 1, "a": [{"b": 1, "d": 3}, {"c": 2}]})
    assert not pattern.matches({"a.b": 1, "a": [{"b": 1, "d": 3}, {"c": 2, "d": 3}]})


@pytest.mark.parametrize(
    ("pattern", "place", "why"),
    [
        ([1], "its top", "is not an object"),
        ({}, "its top", "empty object"),
        ({"data": {}}, '"data"', "empty object"),
        ({"data": {"stock": 5}}, '"data.stock"', "neither an object nor a list"),
        ({"data": {"stock": []}}, '"data.stock"', "empty list"),
        ({"a": ["x", ["y"]]}, '"a[1]"', "no value to compare"),
        ({"a": [{"prefx": "x"}]}, '"a[0]"', 'no operator "prefx"'),
        ({"a": [{}]}, '"a[0]"', "exactly one member"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, '"a[0]"', "exactly one member"),
        ({"a": [{"prefix": 5}]}, '"a[0].prefix"', "takes a text, not 5"),
        ({"a": [{"prefix": {"wildcard": "x"}}]}, '"a[0].prefix"', 'does not take "wildcard"'),
        ({"a": [{"numeric": ["==", 5]}]}, '"a[0].numeric"', "is not one of < <= > >= ="),
        ({"a": [{"numeric": [">", 5, "<", 5]}]}, '"a[0].numeric"', "range from 5 to 5 is empty"),
        ({"a": [{"numeric": ["<", 5, ">", 1]}]}, '"a[0].numeric"', "lower bound first"),
        ({"a": [{"numeric": ["=", "5"]}]}, '"a[0].numeric"', "is not a number"),
        ({"a": [{"numeric": ["=", True]}]}, '"a[0].numeric"', "is not a number"),
        ({"a": [{"numeric": ["<", 2**53 + 1]}]}, '"a[0].numeric"', "does not fit a double"),
        ({"a": [{"numeric": ["<", 10**5000]}]}, '"a[0].numeric"', "does not fit a double"),
        ({"a": [float("nan")]}, '"a[0]"', "no JSON number"),
        ({"a": [{"anything-but": ["x", 5]}]}, '"a[0].anything-but"', "only texts or only numbers"),
        ({"a": [{"anything-but": []}]}, '"a[0].anything-but"', "only texts or only numbers"),
        ({"a": [{"anything-but": {"prefix": ""}}]}, '"a[0].anything-but.prefix"', "empty prefix"),
        ({"a": [{"anything-but": {"numeric": ["<", 5]}}]}, '"a[0].anything-but"', 'does not take "numeric"'),
        ({"a": [{"wildcard": "a**b"}]}, '"a[0].wildcard"', "two stars"),
        ({"a": [{"wildcard": "a\\"}]}, '"a[0].wildcard"', "escapes nothing"),
        ({"a": [{"exists": 1}]}, '"a[0].exists"', "true or false"),
        ({"a": [{"cidr": "10.0.0.0/32"}]}, '"a[0].cidr"', "less than 32"),
        ({"a": [{"cidr": "10.0.0.0"}]}, '"a[0].cidr"', "one '/'"),
        ({"a": [{"cidr": "10.0.0.256/8"}]}, '"a[0].cidr"', "not an IP address"),
        ({"$or": {"a": [1]}}, '"$or"', "takes a list"),
        ({"$or": [{"a": [1]}]}, '"$or"', "at least two"),
        ({"d": {"$or": [{"a": [1]}, 5]}}, '"d.$or[1]"', "is an object, not 5"),
        ({"a": {"$or": [{"prefix": ["x"]}, {"b": [1]}]}}, '"a.$or[0]"', "is an operator"),
        ({5: [1]}, "its top", "is not text"),
        ({"a" * 600: [1]}, '"aaaa', "longer than 512"),
        ({f"p{n}": [1] for n in range(257)}, '"p256"', "more than 256 paths"),
        ({f"p{n}": {"$or": [{"a": [1]}, {"b": [1]}]} for n in range(40)}, "$or", "more than 1000 branches"),
    ],
)
def test_a_wrong_pattern_is_refused_with_its_place_its_reason_and_a_mend(pattern, place, why):
    with pytest.raises(Invalid) as refused:
        compile_pattern(pattern)
    assert place in refused.value.what
    assert why in refused.value.why
    assert refused.value.try_


def explained(pattern: dict, event: dict) -> list[tuple]:
    return [(c.path, c.expected, c.found, c.matched) for c in compile_pattern(pattern).explain(event)]


def test_explain_says_for_each_path_what_was_expected_and_what_was_there():
    pattern = {
        "type": ["a", "b"],
        "data": {"n": [{"numeric": [">=", 1, "<", 5]}], "gone": [{"exists": False}]},
    }
    assert explained(pattern, {"type": "b", "data": {"n": [7, 8, 9, 10], "gone": True}}) == [
        ("data.gone", "no value", "true", False),
        ("data.n", "a number of at least 1 and below 5", "7, 8, 9, … (4 values)", False),
        ("type", '"a" or "b"', '"b"', True),
    ]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (7, "7"),
        ("x", '"x"'),
        ("10.0.0.1", "the address 10.0.0.1"),
        ({"prefix": "x"}, 'text that starts with "x"'),
        ({"suffix": "x"}, 'text that ends with "x"'),
        ({"prefix": {"equals-ignore-case": "x"}}, 'text that starts with "x" in any case'),
        ({"suffix": {"equals-ignore-case": "x"}}, 'text that ends with "x" in any case'),
        ({"equals-ignore-case": "x"}, '"x" in any case'),
        ({"wildcard": "a*b"}, 'text like "a*b"'),
        ({"numeric": [">", 500]}, "a number above 500"),
        ({"numeric": [">=", 500]}, "a number of at least 500"),
        ({"numeric": ["<", 500]}, "a number below 500"),
        ({"numeric": ["<=", 500]}, "a number of at most 500"),
        ({"numeric": ["=", 500]}, "500"),
        ({"numeric": [">", 3, "<=", 7]}, "a number above 3 and at most 7"),
        ({"numeric": [">", 3, "<", 7]}, "a number above 3 and below 7"),
        ({"numeric": [">=", 3, "<=", 7]}, "a number from 3 to 7"),
        ({"cidr": "10.0.0.0/8"}, "an address in 10.0.0.0/8"),
        ({"exists": True}, "any value"),
        ({"exists": False}, "no value"),
        ({"anything-but": ["a", "b"]}, 'any value but "a" or "b"'),
        ({"anything-but": {"prefix": "x"}}, 'any value but text that starts with "x"'),
        ({"anything-but": {"suffix": "x"}}, 'any value but text that ends with "x"'),
        ({"anything-but": {"wildcard": "a*b"}}, 'any value but text like "a*b"'),
        (
            {"anything-but": {"equals-ignore-case": ["x", "y"]}},
            'any value but "x" in any case or "y" in any case',
        ),
    ],
)
def test_every_test_says_what_it_expects_as_people_say_it(test: object, expected: str):
    (clause,) = compile_pattern({"a": [test]}).explain({"a": 12})
    assert clause.expected == expected
    assert clause.sentence == f"a: expected {expected}; found 12"


def test_a_missing_value_is_named_in_the_sentence():
    (clause,) = compile_pattern({"a": [{"numeric": [">", 500]}]}).explain({"b": 12})
    assert clause.sentence == "a: expected a number above 500; found no value"


def test_explain_names_the_alternative_that_lacks_least():
    pattern = {"$or": [{"a": [1], "b": [1], "c": [1]}, {"a": [1], "b": [2]}]}
    assert explained(pattern, {"a": 1, "b": 3}) == [
        ("$or", "one of 2 alternatives", "none; alternative 2 is nearest", False),
        ("a", "1", "1", True),
        ("b", "2", "3", False),
    ]
    assert explained(pattern, {"a": 1, "b": 2})[0] == ("$or", "one of 2 alternatives", "alternative 2", True)


def test_explain_says_when_only_the_combination_is_missing():
    clauses = explained({"x": {"a": [1], "b": [2]}}, {"x": [{"a": 1}, {"b": 2}]})
    assert clauses == [
        ("x.a", "1", "1", True),
        ("x.b", "2", "2", True),
        (
            "x.a, x.b",
            "all in the same element of the array that holds them",
            "only in different elements",
            False,
        ),
    ]


def test_explain_says_when_a_value_is_there_but_not_in_the_chosen_element():
    clauses = explained({"x": {"a": [1], "b": [{"exists": False}]}}, {"x": [{"a": 1}, {"b": 2}]})
    assert clauses[1] == ("x.b", "no value", "2, but not in the chosen elements", True)


def test_an_index_finds_interned_predicates_by_path_in_every_branch():
    first = compile_pattern(
        {"a": ["x", {"prefix": "y"}], "b": [{"exists": False}], "c": [1, {"exists": False}]}
    )
    other = compile_pattern({"z": [{"prefix": "y"}]})
    a, b, c = sorted(first.branches[0].requirements, key=lambda requirement: requirement.path)
    assert [(p.kind, p.operands) for p in a.predicates] == [("equal", ("x",)), ("prefix", ("y",))]
    assert (b.predicates, b.or_absent) == ((), True)
    assert ([p.operands for p in c.predicates], c.or_absent) == ([(1,)], True)
    assert a.predicates[1] is other.branches[0].requirements[0].predicates[0]


def test_true_and_one_are_different_predicates():
    predicates = compile_pattern({"a": [True, 1, False, 0]}).branches[0].requirements[0].predicates
    assert [p.operands[0] for p in predicates] == [TRUE, 1, FALSE, 0]
    assert len(set(predicates)) == 4


def test_an_event_is_flattened_once_for_many_patterns():
    flat = flatten({"a": {"b": [1, True, None]}, "c": [{"d": "x"}, [{"d": "y"}]]})
    assert flat.values == {"a.b": [1, TRUE, None], "c.d": ["x", "y"]}
    assert flatten(flat) is flat
    assert compile_pattern({"c": {"d": ["y"]}}).matches(flat)


@pytest.mark.parametrize("event", [[], "x", None, {"a": {1: 2}}, {"a": object()}, {"a": [b"x"]}])
def test_an_event_that_is_not_json_is_refused(event):
    with pytest.raises(Invalid):
        flatten(event)
