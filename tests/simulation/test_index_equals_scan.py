"""The index against the plain scan: random rule sets, random events, changes and rebuilds in between.

The plain scan asks every pattern by itself, so whatever the index does with buckets, memos and generations
must not show.
"""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triggers.index import Index
from triggers.patterns import compile_pattern, flatten

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
EVENTS = st.dictionaries(NAMES | st.sampled_from(["a.b", "b.c.d", ""]), VALUES, max_size=4)

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
LEAVES = st.lists(ELEMENTS, min_size=1, max_size=3)
MEMBERS = st.dictionaries(
    NAMES | st.sampled_from(["a.b", "b.c", "b.c.d", "", "c."]),
    LEAVES | st.dictionaries(NAMES, LEAVES, min_size=1, max_size=2),
    min_size=1,
    max_size=3,
)
PATTERNS = MEMBERS | st.builds(
    lambda first, second, outside: {"$or": [first, second], **outside},
    MEMBERS,
    MEMBERS,
    MEMBERS | st.just({}),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 12), PATTERNS),
        st.tuples(st.just("match"), EVENTS),
        st.tuples(st.just("match flat"), EVENTS),
        st.tuples(st.just("discard"), st.integers(0, 12)),
        st.tuples(st.just("rebuild")),
    ),
    max_size=12,
)


def compiled(pattern: dict) -> Any:
    return compile_pattern(json.loads(json.dumps(pattern)))


def scan(patterns: dict, event: dict) -> list:
    flat = flatten(event)
    return sorted(key for key, pattern in patterns.items() if pattern.matches(flat))


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
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
        elif step == "rebuild":
            index.rebuild()
        else:
            event = what[0] if step == "match" else flatten(what[0])
            assert sorted(index.match(event)) == scan(patterns, what[0])
    index.settle()
    assert len(index) == len(patterns)
    assert index.stats()["refuted"] == 0
    for key in patterns:
        index.discard(key)
    assert index.stats()["paths"] == 0


CASES = [
    case
    for case in json.loads(VECTORS.read_text())["cases"]
    if not case.get("lossy") and not case.get("quirk")
]


@settings(max_examples=25, deadline=None)
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
