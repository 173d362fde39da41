"""The router's benchmark: its workload is what it says, and it fails when two ways find different triggers."""

import gc
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import router, workload
from functory.triggers.patterns import compile_pattern, flatten

# Speaks the protocol of --event-ruler, as a program called `java` would.
SPEAKER = """#!{python}
import json, sys, zlib
sys.path.insert(0, {root!r})
from functory.triggers.patterns import compile_pattern
assert sys.argv[1:] == ["-jar", "ruler.jar"]
patterns, crc = [], 0
for line in sys.stdin:
    kind, _, rest = line.rstrip("\\n").partition(" ")
    if kind == "pattern":
        id_, _, source = rest.partition(" ")
        patterns.append((id_, compile_pattern(json.loads(source))))
    elif kind == "event":
        ids = sorted(id_ for id_, p in patterns if p.matches(json.loads(rest)))
        crc = zlib.crc32(",".join(ids).encode() + b"\\n", crc)
print(json.dumps({{"digest": crc + {wrong}, "events_per_second": 1.0}}))
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A run that takes little time: it collects garbage, and what other tests have left is not looked at."""
    gc.freeze()
    monkeypatch.setattr(router, "EVENTS", 60)
    monkeypatch.setattr(router, "PASSES", 1)


@pytest.fixture
def java(monkeypatch, tmp_path):
    """Makes a program called `java` that answers; `wrong` is added to its digest."""

    def make(wrong: int) -> None:
        program = tmp_path / "java"
        program.write_text(
            SPEAKER.format(python=sys.executable, root=str(Path(__file__).parents[3]), wrong=wrong)
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return make


def test_all_ways_find_the_same_triggers():
    rows = router.run(quiet=True, sizes=[200], profiles=["broad"])["rows"]
    by_way = {row["way"]: row for row in rows}
    assert by_way["index"]["digest"] == by_way["scan"]["digest"]
    assert by_way["index"]["matches"] > 0
    assert by_way["index"]["bytes_per_trigger"] > 0


def test_a_way_that_finds_other_triggers_fails_the_run(monkeypatch, capsys):
    monkeypatch.setattr(router, "scan", lambda rules: lambda line: ["r000000"])
    monkeypatch.setattr(sys, "argv", ["router", "--triggers", "20", "--profile", "scoped", "--json"])
    assert router.main() == 1
    assert "find different triggers" in capsys.readouterr().err


@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (1, 1)])
def test_event_ruler_is_asked_by_lines(java, monkeypatch, capsys, wrong, code):
    java(wrong)
    monkeypatch.setattr(
        sys,
        "argv",
        ["router", "--triggers", "50", "--profile", "broad", "--json", "--event-ruler", "ruler.jar"],
    )
    assert router.main() == code
    if not code:
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["way"] for row in rows] == ["index", "scan", "moto", "event-ruler"]


def test_the_workload_is_the_same_every_time_and_a_smaller_set_begins_a_larger():
    assert workload.events("scoped", 20) == workload.events("scoped", 20)
    assert list(workload.triggers("broad", 50)) == list(workload.triggers("broad", 80))[:50]


def test_triggers_ask_in_the_shares_that_are_promised():
    kinds: Counter[str] = Counter()
    for _, source in workload.triggers("broad", 4000):
        (branch,) = compile_pattern(source).branches
        kinds.update(r.predicates[0].kind if r.predicates else "exists" for r in branch.requirements)
    total = kinds.total()
    for kind, low, high in (
        ("equal", 0.66, 0.74),
        ("prefix", 0.08, 0.13),
        ("numeric", 0.05, 0.09),
        ("exists", 0.03, 0.06),
    ):
        assert low < kinds[kind] / total < high, kind


def test_events_have_the_size_of_real_ones():
    lines = workload.events("broad", 300)
    assert 600 < sum(map(len, lines)) / len(lines) < 720
    assert 22 < sum(len(flatten(json.loads(line)).values) for line in lines) / len(lines) < 28
