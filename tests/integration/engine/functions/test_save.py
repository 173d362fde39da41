"""Functions and their versions on both databases: what makes a version, what is refused, what is reported."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import row_copy, schema
from functory.engine.errors import Conflict, Invalid, NotFound

pytest_plugins = ["tests.support.world"]

EVERYTHING: dict[str, Any] = {
    "imports": [{"name": "bs4", "lib": "beautifulsoup4"}, "json"],
    "dependencies": ["parse"],
    "secrets": ["API_KEY"],
    "permissions": ["functions:read"],
    "metadata": {"description": "what it does", "labels": ["a", "b"]},
    "output_patterns": {"low": {"stock": [{"numeric": ["<", 5]}]}},
    "limits": {"timeout": 5, "retries": 2},
    "input_parameters": [{"name": "rows", "type": "list"}],
    "output_parameters": {"type": "object"},
    "validate_output": True,
}
KEPT = (
    "imports",
    "dependencies",
    "secrets",
    "permissions",
    "metadata",
    "output_patterns",
    "limits",
    "input_schema",
    "output_schema",
    "declared",
)


def test_a_saved_function_is_version_one_and_active(world):
    saved = world.function("parse", author="ada")
    assert (saved["name"], saved["number"], saved["active"], saved["created"]) == ("parse", 1, 1, True)
    assert world.functions.get("parse")["author"] == "ada"
    assert world.types("function.") == ["function.created"]


def test_a_change_of_anything_makes_exactly_one_version(world):
    world.function("parse")
    source = "def work(rows): return rows\n"
    world.functions.save(source)
    given: dict[str, Any] = {}
    for number, (field, value) in enumerate(EVERYTHING.items(), 2):
        given[field] = value
        assert world.functions.save(source, **given)["number"] == number, field
        assert world.functions.save(source, **given) == world.functions.get("work") | {
            "created": False,
            "inactive_reason": None,
        }
    assert (
        world.functions.save(source.replace("return rows", "return [rows]"), **given)["number"] == number + 1
    )
    assert len(world.functions.versions("work")) == number + 1


def test_the_same_content_makes_no_version_and_no_event(world):
    world.function("parse")
    world.functions.save("def work(): ...\n", **EVERYTHING)
    events = world.types()
    again = world.functions.save("def work(): ...\n", **EVERYTHING)
    assert (again["number"], again["created"]) == (1, False)
    assert world.types() == events


def test_the_same_content_makes_no_version_before_and_after_its_missing_dependency_came(world):
    first = world.function("work", dependencies=["parse", "read@2"])
    assert [(d["name"], d["resolved"]) for d in first["dependencies"]] == [("parse", False), ("read", False)]
    assert first["warnings"] == [
        "the dependency parse does not exist yet",
        "the dependency read does not exist yet",
    ]
    assert not world.function("work", dependencies=["parse", "read@2"])["created"]
    world.function("parse")
    assert not world.function("work", dependencies=["parse", "read@2"])["created"]


def test_a_proposal_saved_twice_is_one_version(world):
    world.function("work")
    for _ in range(2):
        proposed = world.functions.save("def work(): return 2\n", activate=False)
        assert (proposed["number"], proposed["active"]) == (2, 1)


def test_a_new_function_saved_without_activation_has_no_active_version(world):
    saved = world.functions.save("def work(): ...\n", activate=False)
    assert saved["active"] is None
    with pytest.raises(Conflict, match="no active version"):
        world.start("work")
    world.functions.activate("work", 1)
    assert world.start("work")["version"] == 1


@pytest.mark.parametrize("change", [
    {"metadata": {"description": "new"}},
    {"source": "def work(rows):\n    return rows\n"},
    {"limits": {"timeout": 9}},
    {"dependencies": []},
    {"secrets": ["OTHER"]},
])  # fmt: skip
def test_a_partial_update_keeps_what_it_does_not_name(world, change):
    world.function("parse")
    before = world.functions.save("def work(rows): return 1\n", **EVERYTHING)
    after = world.functions.update("work", **change)
    assert after["number"] == 2
    for field in KEPT:
        assert after[field] == (before[field] if field not in change else after[field]), field
    assert after["source"] == change.get("source", before["source"])


def test_an_update_of_the_source_forgets_the_imports_that_were_only_found_in_it(world):
    world.functions.save("import numpy\ndef work(): return numpy\n")
    assert world.functions.update("work", source="import scipy\ndef work(): return scipy\n")["imports"] == [
        "scipy"
    ]


def test_an_update_of_an_unknown_function_is_refused(world):
    with pytest.raises(NotFound, match="function 'work' not found"):
        world.functions.update("work", source="def work(): ...\n")
    with pytest.raises(NotFound, match="function 'work' not found"):
        world.functions.update("work", metadata={})
    assert world.types() == []


def test_six_threads_with_ten_updates_each_make_sixty_distinct_numbers(world):
    # Defect 16 of BabyAGI: concurrent updates shared a number.
    world.function("work")
    numbers: list[int] = []

    def update(thread: int) -> None:
        for turn in range(10):
            numbers.append(world.functions.update("work", metadata={"by": [thread, turn]})["number"])

    threads = [threading.Thread(target=update, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(2, 62))
    assert world.functions.get("work")["active"] == 61
    assert world.types("function.updated") == ["function.updated"] * 60


def test_the_first_functions_of_many_threads_are_all_saved(world):
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(world.function, [f"work{n}" for n in range(6)]))
    assert [f["name"] for f in world.functions.list()] == [f"work{n}" for n in range(6)]


def test_a_stale_expected_version_is_a_conflict(world):
    world.function("work")
    world.functions.update("work", metadata={"n": 1}, expected_version=1)
    with pytest.raises(Conflict, match="you expected version 1, active is 2"):
        world.functions.update("work", metadata={"n": 2}, expected_version=1)
    with pytest.raises(Conflict, match="you expected version 0, active is 2"):
        world.function("work", expected_version=0)
    with pytest.raises(Conflict, match="you expected version 1, active is 2"):
        world.functions.activate("work", 1, expected_version=1)
    assert world.functions.get("work")["number"] == 2


def test_activate_and_rollback_move_the_active_version_and_write_events(world):
    for n in range(3):
        world.function("work", metadata={"n": n})
    assert world.functions.rollback("work")["number"] == 2
    assert world.functions.rollback("work")["number"] == 1
    with pytest.raises(Conflict, match="work has no earlier version to go back to"):
        world.functions.rollback("work")
    assert world.functions.activate("work", 3, force=True)["active"] == 3
    assert world.functions.activate("work", 3)["active"] == 3
    events = [e["data"] for e in world.rows(schema.event, schema.event.c.type == "function.activated")]
    assert [(d["version"], d["previous_version"]) for d in events] == [(2, 3), (1, 2), (3, 1)]


def test_activating_a_version_that_does_not_exist_changes_nothing(world):
    world.function("work")
    world.functions.update("work", metadata={"n": 1})
    for number in (0, 3, 99, 10**30):
        with pytest.raises((NotFound, Invalid)):
            world.functions.activate("work", number)
    with pytest.raises(NotFound, match="it has versions 1 to 2"):
        world.functions.activate("work", 99)
    assert world.functions.get("work")["active"] == 2
    assert world.start("work")["version"] == 2


def test_a_disabled_function_starts_nothing_until_it_is_activated(world):
    world.function("work")
    old = world.finish(world.claim(world.start()))
    assert old.state == "succeeded"
    world.functions.disable("work")
    world.functions.disable("work")
    with pytest.raises(Conflict, match="function work is disabled"):
        world.start()
    with pytest.raises(Conflict, match="function work is disabled"):
        world.executions.replay(world.executions.list()[0]["id"])
    world.functions.activate("work", 1)
    assert world.start()["state"] == "queued"
    assert world.types("function.")[1:] == ["function.disabled", "function.activated"]


def test_a_function_in_use_is_deleted_only_by_force(world):
    world.function("parse")
    world.function("load", dependencies=["parse@1"])
    world.trigger("on-order", "parse", {"type": ["order.created"]})
    with pytest.raises(Conflict, match="it is needed by function load, trigger on-order"):
        world.functions.delete("parse")
    assert world.functions.get("parse")["active"] == 1
    world.functions.delete("parse", force=True)
    with pytest.raises(NotFound):
        world.functions.get("parse")
    assert world.types("function.deleted") == ["function.deleted"]


def test_a_deleted_function_that_comes_back_goes_on_counting(world):
    world.function("work")
    world.functions.delete("work")
    again = world.function("work")
    assert (again["number"], again["created"]) == (2, True)
    assert world.types("function.") == ["function.created", "function.deleted", "function.created"]


def test_executions_of_a_deleted_function_stay_readable_with_their_version(world):
    world.function("work")
    row = world.start()
    world.finish(world.claim(row), result=1)
    world.functions.delete("work")
    assert world.executions.get(row["id"])["result"] == 1


def test_a_floating_dependency_follows_the_active_version_and_a_pinned_one_stays(world):
    world.function("parse", metadata={"n": 1})
    world.function("parse", metadata={"n": 2})
    world.function("floats", dependencies=["parse"])
    world.function("pinned", dependencies=["parse@1"])
    used = {}
    for turn in ("before", "after"):
        for name in ("floats", "pinned"):
            claim = world.claim(world.start(name))
            used[turn, name] = sorted(claim.codes)
            world.finish(claim)
            assert sorted(world.executions.get(claim.id)["versions"]) == used[turn, name]
        world.function("parse", metadata={"n": 3})
    assert used == {
        ("before", "floats"): ["floats@1", "parse@2"], ("after", "floats"): ["floats@1", "parse@3"],
        ("before", "pinned"): ["parse@1", "pinned@1"], ("after", "pinned"): ["parse@1", "pinned@1"],
    }  # fmt: skip


def test_an_execution_whose_dependency_is_missing_has_a_problem_and_no_code(world):
    world.function("work", dependencies=["parse"])
    claim = world.claim(world.start())
    assert isinstance(claim.problem, NotFound)
    assert "it is a dependency of work v1" in str(claim.problem)


def test_a_cycle_of_dependencies_is_refused_with_its_path(world):
    world.function("a", dependencies=["b"])
    world.function("b", dependencies=["c"])
    with pytest.raises(Conflict, match="c → a → b → c"):
        world.function("c", dependencies=["a"])
    with pytest.raises(Conflict, match="d → d"):
        world.function("d", dependencies=["d"])
    assert [f["name"] for f in world.functions.list()] == ["a", "b"]


def test_activating_a_version_that_would_close_a_cycle_is_refused(world):
    world.function("a", dependencies=["b"])
    world.function("a")
    world.function("b", dependencies=["a"])
    with pytest.raises(Conflict, match="a → b → a"):
        world.functions.activate("a", 1)
    assert world.functions.get("a")["active"] == 2


def test_hundreds_of_dependencies_are_read_at_once(world):
    for n in range(3):
        world.function(f"parse{n}")
    saved = world.function("work", dependencies=[f"parse{n}" for n in range(1500)])
    assert sum(d["resolved"] for d in saved["dependencies"]) == 3


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"colour": 1}, "unknown fields of a function: colour"),
    ({"secrets": "API_KEY"}, "secrets must be a list"),
    ({"dependencies": "parse"}, "dependencies must be a list"),
    ({"dependencies": ["parse@0"]}, "does not name a dependency"),
    ({"dependencies": ["parse", "parse@2"]}, "declared twice"),
    ({"dependencies": ["emit"]}, "reserved"),
    ({"permissions": ["everything"]}, "unknown permissions: everything"),
    ({"metadata": ["a"]}, "metadata must be an object"),
    ({"metadata": {"a": {1, 2}}}, "not JSON"),
    ({"limits": {"timeout": -1}}, "wrong limit timeout=-1"),
    ({"limits": [1]}, "limits must be an object"),
    ({"output_patterns": {"low": {"stock": 5}}}, "the output pattern low is wrong"),
    ({"output_patterns": {"low": "("}}, "the output pattern low is wrong"),
    ({"input_parameters": {"type": 3}}, "schema of the input_parameters is wrong"),
    ({"input_parameters": {"$ref": "file:///etc/passwd"}}, "remote references are refused"),
]


def test_a_wrong_declaration_is_refused_and_stores_nothing(world):
    for declared, message in WRONG:
        with pytest.raises(Invalid, match=message):
            world.function("work", **declared)
    assert world.functions.list() == []
    assert world.types() == []


def test_key_dependencies_is_another_spelling_of_secrets(world):
    assert world.function("work", key_dependencies=["A"], secrets=["B"])["secrets"] == ["B", "A"]


def test_an_input_that_does_not_fit_is_refused_with_the_place_and_what_it_takes(world):
    world.functions.save(
        "def work(rows, limit=1): ...\n",
        input_parameters=[
            {"name": "rows", "type": "list"},
            {"name": "limit", "type": "int", "required": False},
        ],
    )
    with pytest.raises(
        Invalid,
        match=r"(?s)input of work v1 does not fit.*limit: .*it takes \{rows: array, limit: integer\?\}",
    ):
        world.executions.start("work", {"rows": [], "limit": "no"})
    with pytest.raises(Invalid, match="rows"):
        world.executions.start("work", {})
    assert world.executions.list() == []


class Broken(Exception):
    pass


def test_a_change_that_is_rolled_back_leaves_neither_version_nor_event(world, monkeypatch):
    world.function("work")
    real, broken = schema.event.insert, []

    def breaks(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO event"):
            broken.append(real)
            raise Broken

    def breaks_later(connection: Any, table: sa.Table, rows: Any) -> None:
        if table is schema.event:
            broken.append(real)
            raise Broken
        insert_later(connection, table, rows)

    # PostgreSQL gets few rows together with the commit.
    insert_later = row_copy.insert_later
    monkeypatch.setattr(row_copy, "insert_later", breaks_later)
    sa.event.listen(world.database.engine, "before_cursor_execute", breaks)
    changes = [
        lambda: world.function("work", metadata={"n": 1}),
        lambda: world.function("other"),
        lambda: world.functions.disable("work"),
        lambda: world.functions.delete("work"),
        lambda: world.trigger("t", "work", {"type": ["a"]}),
    ]
    for change in changes:
        with pytest.raises(Broken):
            change()
    sa.event.remove(world.database.engine, "before_cursor_execute", breaks)
    monkeypatch.undo()
    assert len(broken) == len(changes)
    assert [(f["name"], f["number"], f["state"]) for f in world.functions.list()] == [("work", 1, "enabled")]
    assert world.triggers.list() == []
    assert world.types() == ["function.created"]


def test_a_name_that_cannot_exist_is_not_found_or_invalid(world):
    for name in ("a\x00b", "\ud800", "", "x" * 300, None):
        with pytest.raises((NotFound, Invalid)):
            world.functions.get(name)


def test_more_processes_than_one_need_the_right_to_start_programs(world):
    source = "def work(): ...\n"
    with pytest.raises(Invalid, match="declare subprocess=True as well"):
        world.functions.save(source, limits={"processes": 4})
    saved = world.functions.save(source, limits={"processes": 4}, subprocess=True)
    assert (saved["limits"], saved["grants"]) == ({"processes": 4}, {"subprocess": True})
    with pytest.raises(Invalid, match="processes=4 without the right"):
        world.functions.update("work", subprocess=False)


def test_a_version_that_asks_for_nothing_new_has_the_hash_that_it_always_had(world):
    plain = world.function("plain")
    asked = world.functions.update("plain", reuse=True, requirements=[], hosts=[])
    refused = world.functions.update("plain", reuse=False)
    back = world.functions.update("plain", reuse=None)
    assert len({plain["sha256"], asked["sha256"], refused["sha256"]}) == 3
    assert (asked["reuse"], refused["reuse"], back["reuse"]) == (True, False, False)
    assert plain["sha256"] == back["sha256"]
