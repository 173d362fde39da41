"""Declared dependencies: how they are written, which graphs are refused, and what one run uses."""

import pytest

from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.functions import dependencies
from functory.engine.functions.dependencies import Dependency
from functory.engine.functions.version_row import VersionRow
from tests.support.version_rows import version_row


@pytest.mark.parametrize(
    ("text", "expected"), [("parse", ("parse", None)), ("parse@3", ("parse", 3)), ("_p1@12", ("_p1", 12))]
)
def test_a_reference_is_a_name_or_a_name_at_a_version(text, expected):
    assert dependencies.parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@1",
        "parse@",
        "parse@0",
        "parse@-1",
        "parse@01",
        "parse@x",
        "a b",
        "a@1@2",
        "parse@9999999999",
        None,
        5,
    ],
)
def test_anything_else_is_no_reference(text):
    with pytest.raises(Invalid, match="write name or name@version"):
        dependencies.parse_reference(text)


def test_a_declaration_is_read_sorted_and_once():
    assert dependencies.parse(["b@2", "a", {"name": "c", "pin": 1, "resolved": True}, "a"]) == (
        Dependency("a"), Dependency("b", 2), Dependency("c", 1))  # fmt: skip
    assert dependencies.parse(None) == ()
    assert [str(d) for d in dependencies.parse(["b@2", "a"])] == ["a", "b@2"]


@pytest.mark.parametrize(
    "declared", ["parse", ["a", "a@1"], ["emit"], [{"pin": 1}], [None], [["a"]], ["class"]]
)
def test_a_wrong_declaration_is_refused(declared):
    with pytest.raises(Invalid):
        dependencies.parse(declared)


@pytest.mark.parametrize(("graph", "path"), [
    ({"a": ["a"]}, "a → a"),
    ({"a": ["b"], "b": ["a"]}, "a → b → a"),
    ({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["b"]}, "b|c|d"),
    ({"a": ["x", "b"], "x": [], "b": ["c"], "c": ["a"]}, "a → b → c → a"),
])  # fmt: skip
def test_a_cycle_is_refused_with_its_path(graph, path):
    with pytest.raises(Conflict, match=path):
        dependencies.check_acyclic("a", graph)


def test_a_diamond_and_a_cycle_elsewhere_are_no_cycle_of_the_function():
    dependencies.check_acyclic("a", {"a": ["b", "c"], "b": ["d"], "c": ["d"]})
    dependencies.check_acyclic("a", {"a": ["b"], "x": ["y"], "y": ["x"]})


def test_a_very_long_chain_is_no_problem():
    dependencies.check_acyclic("f0", {f"f{n}": [f"f{n + 1}"] for n in range(5000)})


def rows(**needs: list[str]) -> dict[tuple[str, int], VersionRow]:
    """Versions by (function, number) from `name_number=[dependencies]`; the highest number is active."""
    found = {}
    for key, declared in needs.items():
        name, number = key.rsplit("_", 1)
        found[name, int(number)] = version_row(
            name=name,
            number=int(number),
            dependencies=[d.as_json() for d in dependencies.parse(declared)],
        )
    return found


def close(entry: tuple[str, int], known: dict[tuple[str, int], VersionRow]) -> list[str]:
    def load(name: str, pin: int | None) -> VersionRow | None:
        return known.get((name, pin or max((n for f, n in known if f == name), default=0)))

    return list(dependencies.closure(known[entry], load))


def test_a_run_uses_the_active_and_the_pinned_versions_itself_first():
    known = rows(top_1=["a", "b@1"], a_1=[], a_2=["b"], b_1=[], b_2=[])
    assert sorted(close(("top", 1), known)) == ["a@2", "b@1", "b@2", "top@1"]
    assert close(("top", 1), known)[0] == "top@1"


def test_a_cycle_that_came_later_does_not_hang_a_run():
    assert sorted(close(("a", 1), rows(a_1=["b"], b_1=["a"]))) == ["a@1", "b@1"]


def test_a_missing_dependency_is_named_with_its_dependent():
    with pytest.raises(NotFound, match=r"(?s)function 'c@3' not found.*it is a dependency of b v1"):
        close(("a", 1), rows(a_1=["b"], b_1=["c@3"]))
