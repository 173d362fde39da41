"""Compares the trigger index with a plain scan: random rule sets, random events, and changes between them.

The plain scan tests every pattern by itself. So buckets and cached results of the index must not change an answer.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.triggers.index import Index
from functory.triggers.patterns import compile_pattern, flatten
from tests.support.thoroughness import amount

VECTORS = Path(__file__).parents[1] / "data" / "pattern_vectors.json"

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(
    ["", "x", "xy", "xyz", "XY", "Xyz", "yx", "zyx", "ß", "SS", "ss", "Σας", "σΑΣ", "K", "k",
     "10.0.0.1", "010.0.0.1", "10.1.2.3", "::1", "0:0::1", "2001:db8::5", "x*y", "abcdefghijklmnop"]
)  # fmt: skip
NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 2.5, 3, 7, 100, -0.0, 1e23, int(1e23), 2**53, 2**53 + 1, 10**400, 5e-324, 1.0]
)
SCALARS = TEXTS | NUMBERS | st.sampled_from([True, False, None])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.just("a.b"), inner, max_size=3),
    max_leaves=12,
)
SHALLOW = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=2), max_size=4)
DEEP = st.dictionaries(NAMES | st.sampled_from(["a.b", "b.c.d", ""]), VALUES, max_size=4)
EVENTS = SHALLOW | DEEP

FITTING = st.sampled_from([0, 1, -1, 2, 2.5, 3, 7, 100, 1e23, 2**53, 5e-324, -1e308, 1e308])
WORDS = st.sampled_from(["x", "xy", "X", "yx", "zyx", "ß", "ss", "Σ", "k", "abcdefghijklm", "10."])
WILDCARDS = st.sampled_from(["x*", "*x", "x*z", "*y*", "*", "xyz", r"x\*y", "abcdefghij*"])
CASED = st.builds(lambda text: {"equals-ignore-case": text}, WORDS | st.just(""))
AFFIXES = st.sampled_from(["prefix", "suffix"])
NETS = st.sampled_from(["10.0.0.0/8", "10.0.0.0/24", "0.0.0.0/0", "::/64", "2001:db8::/32"])
RANGES = st.tuples(FITTING, FITTING).filter(lambda b: b[0] < b[1])
ELEMENTS = st.one_of(
    SCALARS,
    st.builds(lambda text: {"exactly": text}, TEXTS),
    st.builds(lambda kind, text: {kind: text}, AFFIXES, WORDS | CASED | st.just("")),
    CASED,
    st.builds(lambda text: {"wildcard": text}, WILDCARDS),
    st.builds(lambda sign, n: {"numeric": [sign, n]}, st.sampled_from(["<", "<=", "=", ">", ">="]), FITTING),
    st.builds(lambda low, b, high: {"numeric": [low, b[0], high, b[1]]},
              st.sampled_from([">", ">="]), RANGES, st.sampled_from(["<", "<="])),
    st.builds(lambda net: {"cidr": net}, NETS),
    st.builds(lambda flag: {"exists": flag}, st.booleans()),
    st.builds(lambda x: {"anything-but": x}, TEXTS | st.lists(TEXTS, min_size=1, max_size=2) | FITTING),
    st.builds(lambda kind, text: {"anything-but": {kind: text}},
              st.sampled_from(["prefix", "suffix", "equals-ignore-case", "wildcard"]), WORDS),
)  # fmt: skip
LEAVES = st.lists(ELEMENTS, min_size=1, max_size=1) | st.lists(ELEMENTS, min_size=1, max_size=3)
MEMBERS = st.dictionaries(
    NAMES | st.sampled_from(["a.b", "b.c", "b.c.d", "", "c."]),
    LEAVES | st.dictionaries(NAMES, LEAVES, min_size=1, max_size=2),
    min_size=1,
    max_size=3,
)
NARROW = st.dictionaries(NAMES, LEAVES, min_size=1, max_size=2)
PATTERNS = (
    NARROW
    | MEMBERS
    | st.builds(
        lambda first, second, outside: {"$or": [first, second], **outside},
        NARROW,
        MEMBERS,
        MEMBERS | st.just({}),
    )
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 12), PATTERNS),
        st.tuples(st.just("match"), EVENTS),
        st.tuples(st.just("match flat"), EVENTS),
        st.tuples(st.just("discard"), st.integers(0, 12)),
    ),
    max_size=12,
)


def compiled(pattern: dict) -> Any:
    return compile_pattern(json.loads(json.dumps(pattern)))


def scan(patterns: dict, event: dict) -> list:
    flat = flatten(event)
    return sorted(key for key, pattern in patterns.items() if pattern.matches(flat))


@settings(max_examples=amount(60, 500), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PATTERNS, max_size=12), st.lists(EVENTS, max_size=6), STEPS)
def test_the_index_answers_as_the_scan_after_every_change(first, events, steps):
    patterns = {key: compiled(pattern) for key, pattern in enumerate(first)}
    index = Index()
    for key, pattern in patterns.items():
        index.add(key, pattern)
    for step, *what in [
        *(("match", event) for event in events),
        *steps,
        *(("match", event) for event in events),
    ]:
        if step == "add":
            patterns[what[0]] = compiled(what[1])
            index.add(what[0], patterns[what[0]])
        elif step == "discard":
            patterns.pop(what[0], None)
            index.discard(what[0])
        else:
            event = what[0] if step == "match" else flatten(what[0])
            assert sorted(index.match(event)) == scan(patterns, what[0])
    assert len(index) == len(patterns)
    for key in patterns:
        index.discard(key)
    assert not index._postings


def element(chance: Random, value: Any) -> Any:
    """An element of a pattern for a path that may hold ``value``: it matches that value, or nearly."""
    if isinstance(value, str) and value and chance.random() < 0.7:
        cut = chance.randrange(1, len(value) + 1)
        kind = chance.choice(["prefix", "suffix"])
        part = value[:cut] if kind == "prefix" else value[-cut:]
        return chance.choice(
            [{kind: part}, {kind: {"equals-ignore-case": part.swapcase()}}, {"equals-ignore-case": value.swapcase()},
             {"wildcard": f"{value[:cut]}*"}, {"wildcard": f"*{value[-cut:]}"}, {"exactly": value},
             {"anything-but": {kind: part}}, {"anything-but": value}]
        )  # fmt: skip
    if type(value) in (int, float) and chance.random() < 0.7:
        low, high = chance.choice([0, 0.5, 1, 3]), chance.choice([0.5, 1, 2, 6])
        return chance.choice(
            [{"numeric": [chance.choice([">", ">="]), value - low, chance.choice(["<", "<="]), value + high]},
             {"numeric": [chance.choice(["<", "<=", ">", ">=", "="]), value]}, {"anything-but": value}]
        )  # fmt: skip
    return chance.choice([value, value, value, {"exists": True}, {"exists": False}])


def rule_set(chance: Random) -> tuple[list[dict], list[dict]]:
    """Patterns and events over few values and names, so that most pairs nearly match."""
    texts = [
        "x",
        "xy",
        "Xyz",
        "ß",
        "σΑΣ",
        "abcdefghijklmnop",
        "abcdefghijklXnop",
        "10.1.2.3",
        "10.1.2.03",
        "y",
    ]
    pool = chance.sample([*texts, 0, 1, 2.5, 7, 100, True, None], 4)
    names = ["a", "b", "c"]

    def value(depth: int = 0) -> Any:
        roll = chance.random()
        if depth < 2 and roll < 0.1:
            return [value(depth + 1) for _ in range(chance.randrange(3))]
        if depth < 2 and roll < 0.25:
            return {name: value(depth + 1) for name in chance.sample(names, chance.randrange(3))}
        return chance.choice(pool)

    def members(depth: int = 0) -> dict:
        return {
            name: members(1)
            if depth == 0 and chance.random() < 0.15
            else [element(chance, chance.choice(pool)) for _ in range(chance.choice([1, 1, 2]))]
            for name in chance.sample(names, chance.choice([1, 1, 2]))
        }

    patterns = [
        {"$or": [members(), members()]} if chance.random() < 0.15 else members()
        for _ in range(chance.randrange(1, 30))
    ]
    events = [{name: value() for name in chance.sample(names, chance.randrange(1, 4))} for _ in range(20)]
    return patterns, events


@settings(max_examples=amount(150, 3000), deadline=None)
@given(st.integers(0, 2**32))
def test_the_index_answers_as_the_scan_where_most_patterns_nearly_match(seed):
    chance = Random(seed)
    sources, events = rule_set(chance)
    patterns = {key: compiled(source) for key, source in enumerate(sources)}
    index = Index()
    for key, pattern in patterns.items():
        index.add(key, pattern)
    for event in events:
        assert sorted(index.match(event)) == scan(patterns, event)
        key, other = chance.choice(list(patterns)), chance.choice(list(patterns))
        patterns[key] = patterns[other]
        index.add(key, patterns[other])


CASES = [
    case
    for case in json.loads(VECTORS.read_text())["cases"]
    if not case.get("lossy") and not case.get("quirk")
]


@settings(max_examples=amount(5, 25), deadline=None)
@given(st.lists(st.sampled_from(CASES), min_size=50, max_size=200), st.randoms(use_true_random=False))
def test_the_index_answers_as_the_scan_for_patterns_and_events_of_the_vectors(cases, chance):
    patterns: dict = {}
    index = Index()
    for number, case in enumerate(cases):
        patterns[number] = compiled(json.loads(case["pattern"]))
        index.add(number, patterns[number])
        if number % 5 == 0:
            gone = chance.randrange(number + 1)
            patterns.pop(gone, None)
            index.discard(gone)
        event = json.loads(chance.choice(cases)["event"])
        assert sorted(index.match(event)) == scan(patterns, event)
