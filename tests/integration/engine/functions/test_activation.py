"""Activations are rows, and a rollback goes back to the version that was good."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Conflict, FunctoryError, NotFound
from functory.engine.functions.registry import Functions
from functory.engine.functions.rollback import earlier_versions
from functory.engine.maintenance.invariants import verify
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ACTIVATORS, ROLLBACKERS, ROUNDS = 32, 8, 6


def save(world: World, number: int, **declared: Any) -> dict[str, Any]:
    """Save a version of ``work`` whose content is this number."""
    return world.functions.save(f"def work():\n    return {number}\n", **declared)


def active(world: World) -> int:
    return world.functions.get("work")["active"]


def marks(world: World) -> dict[int, str]:
    return {row["version"]: row["mark"] for row in world.rows(schema.version_mark)}


def check(world: World) -> None:
    assert [found.examples for found in verify(world.database, world.settings, only=["I16"])] == [()]


def test_a_rollback_never_goes_to_a_version_that_was_rejected(world: World) -> None:
    save(world, 1)
    for bad in (2, 3):
        save(world, bad)
        assert world.functions.rollback("work", author="ada")["number"] == 1
    assert marks(world) == {2: "bad", 3: "bad"}
    assert [
        (r["version"], r["reason"], r["previous"]) for r in reversed(world.functions.history("work"))
    ] == [
        (1, "save", None),
        (2, "save", 1),
        (1, "rollback", 2),
        (3, "save", 1),
        (1, "rollback", 3),
    ]
    check(world)


def test_ten_bad_versions_in_a_row_end_at_the_good_one_each_time(world: World) -> None:
    """The flow of the guide about validation on every update: a check, and a rollback when it fails."""
    save(world, 1)
    world.function("check")
    world.function("undo")
    world.trigger("each", "check", {"type": ["function.updated"], "subject": ["work"]})
    world.trigger("undo", "undo", {"type": ["execution.failed"], "subject": ["check"]})

    def act(claim: Any) -> None:
        if claim.row.function == "undo":
            world.functions.rollback("work")

    for bad in range(2, 12):
        save(world, bad)
        for _ in range(3):
            world.route()
            for claim in world.worker.claim_any(10):
                act(claim)
                world.finish(claim, "failed" if claim.row.function == "check" else "succeeded")
        assert active(world) == 1, f"after version {bad}"
    assert marks(world) == dict.fromkeys(range(2, 12), "bad")
    check(world)


def test_a_version_that_was_left_by_hand_is_not_the_target_after_its_rollback(world: World) -> None:
    """The version that was active before counts, not the next lower number."""
    for number in (1, 2):
        save(world, number)
    world.functions.activate("work", 1)
    save(world, 3)
    assert world.functions.rollback("work")["number"] == 1


def test_without_a_mark_a_rollback_is_still_not_undone_by_the_next_one(world: World) -> None:
    for number in (1, 2, 3):
        save(world, number)
    assert [world.functions.rollback("work", keep_mark=True)["number"] for _ in range(2)] == [2, 1]
    assert marks(world) == {}
    with pytest.raises(Conflict, match="no other version was active before v1 and was not rolled back"):
        world.functions.rollback("work")


def test_the_error_without_a_target_names_each_version_and_why(world: World) -> None:
    world.function("clean")
    save(world, 1, dependencies=["clean"])
    save(world, 2)
    save(world, 3)
    world.functions.mark("work", 2, "bad", reason="loses rows", author="ada")
    world.functions.delete("clean", force=True)
    with pytest.raises(
        Conflict,
        match=r"(?s)v2: .*loses rows, marked by ada.*v1: the dependency clean does not exist.*--to N",
    ):
        world.functions.rollback("work")
    assert active(world) == 3
    assert marks(world) == {2: "bad"}, "nothing changes"


def test_a_named_target_that_is_bad_needs_force(world: World) -> None:
    for number in (1, 2, 3):
        save(world, number)
    world.functions.mark("work", 1, "bad", reason="loses rows")
    for change in (
        lambda **given: world.functions.rollback("work", to=1, **given),
        lambda **given: world.functions.activate("work", 1, **given),
    ):
        with pytest.raises(Conflict, match=r"(?s)v1 is marked bad.*loses rows.*--force"):
            change()
    assert active(world) == 3
    assert marks(world) == {1: "bad"}
    world.functions.rollback("work", to=1, force=True)
    assert world.functions.history("work")[0]["reason"] == "force"
    assert marks(world) == {1: "bad", 3: "bad"}
    check(world)
    world.functions.mark("work", 3, "good", reason="the network was down")
    assert world.functions.activate("work", 3)["active"] == 3


def test_a_version_that_is_not_active_any_more_is_only_marked(world: World) -> None:
    """The check of a bad version may end when a good one is active already."""
    for number in (1, 2, 3):
        save(world, number)
    assert world.functions.rollback("work", from_version=2)["active"] == 3
    assert marks(world) == {2: "bad"}
    assert world.functions.rollback("work", from_version=3)["active"] == 1
    with pytest.raises(NotFound):
        world.functions.rollback("work", from_version=9)


def test_the_active_version_is_not_marked_bad_while_it_is_active(world: World) -> None:
    save(world, 1)
    with pytest.raises(Conflict, match="functory function rollback work"):
        world.functions.mark("work", 1, "bad", reason="no")


def test_marks_and_activations_are_events(world: World) -> None:
    for number in (1, 2):
        save(world, number)
    world.functions.rollback("work", author="ada")
    (marked,) = world.rows(schema.event, schema.event.c.type == "version.marked")
    assert (marked["subject"], marked["data"]["version"], marked["data"]["mark"]) == ("work", 2, "bad")
    assert marked["data"]["reason"] == "rolled back to v1"
    (activated,) = world.rows(schema.event, schema.event.c.type == "function.activated")
    wanted = {"version": 1, "previous_version": 2, "reason": "rollback", "author": "ada"}
    assert wanted.items() <= activated["data"].items()


def test_content_that_is_marked_bad_stays_inactive_when_it_is_saved_again(world: World) -> None:
    for number in (1, 2):
        save(world, number)
    world.functions.rollback("work")
    save(world, 3)
    again = save(world, 2)
    assert (again["number"], again["created"], again["active"]) == (2, False, 3)
    assert "v2 is marked bad: rolled back to v1" in again["inactive_reason"]
    forced = save(world, 2, force=True)
    assert (forced["number"], forced["active"], forced["inactive_reason"]) == (2, 2, None)
    assert world.functions.history("work")[0]["reason"] == "force"
    check(world)


def test_a_deleted_function_has_no_open_activation_and_keeps_its_history(world: World) -> None:
    save(world, 1)
    world.functions.delete("work", author="ada")
    (row,) = world.rows(schema.activation)
    assert (row["ended_by"], row["ended_at"] is None) == ("ada", False)
    save(world, 2)
    assert [(r["version"], r["previous"]) for r in world.functions.history("work")] == [(2, None), (1, None)]
    check(world)


def failing(error: str | None) -> Callable[..., Any]:
    """An inspection that reports this error of executing the source."""

    def inspect(source: str, name: str, *, packages: Any = (), modules: Any = None) -> Any:
        problems = [f"{name}: executing its source failed: {error}"] if error else []
        return SimpleNamespace(
            input_schema={}, output_schema=None, problems=problems, import_error=error, unconvertible=[]
        )

    return inspect


MISSING = "ModuleNotFoundError: No module named 'nosuchmod'"


def test_a_version_that_fails_its_import_is_saved_and_not_active(world: World) -> None:
    save(world, 1)
    broken = Functions(world.database, failing(MISSING), world.settings)
    text = "import nosuchmod\ndef work():\n    return 2\n"
    row = broken.save(text)
    assert (row["number"], row["active"], row["created"]) == (2, 1, True)
    assert "No module named 'nosuchmod'" in row["inactive_reason"]
    assert row["findings"][0]["kind"] == "failed_import"
    (event,) = world.rows(schema.event, schema.event.c.type == "function.updated")
    assert (event["data"]["active"], "nosuchmod" in event["data"]["inactive_reason"]) == (False, True)
    again = broken.save(text)
    assert (again["number"], again["created"], again["inactive_reason"]) == (2, False, row["inactive_reason"])
    with pytest.raises(Conflict, match=r"(?s)v2 cannot be imported.*nosuchmod.*--force"):
        world.functions.activate("work", 2)
    assert broken.activate("work", 2, force=True)["active"] == 2
    assert world.functions.rollback("work")["number"] == 1


def test_force_activates_what_fails_its_import(world: World) -> None:
    broken = Functions(world.database, failing(MISSING), world.settings)
    row = broken.save("import nosuchmod\ndef work():\n    return 2\n", force=True)
    assert (row["active"], row["inactive_reason"]) == (1, None)
    assert world.functions.history("work")[0]["reason"] == "force"


def test_a_first_version_that_fails_its_import_says_so_when_it_is_called(world: World) -> None:
    broken = Functions(world.database, failing(MISSING), world.settings)
    text = "import nosuchmod\ndef work():\n    return 2\n"
    assert broken.save(text)["active"] is None
    with pytest.raises(Conflict, match=r"(?s)work has no active version.*v1.*No module named 'nosuchmod'"):
        world.start("work")
    mended = Functions(world.database, failing(None), world.settings).save(text)
    assert (mended["active"], mended["inactive_reason"]) == (mended["number"], None)
    assert world.start("work")["state"] == "queued"


def formless(*reported: str) -> Callable[..., Any]:
    """An inspection that reports hints without a JSON form."""

    def inspect(source: str, name: str, *, packages: Any = (), modules: Any = None) -> Any:
        return SimpleNamespace(
            input_schema={},
            output_schema=None,
            problems=list(reported),
            import_error=None,
            unconvertible=reported,
        )

    return inspect


LOCK = "parameter 'lock': a Lock has no JSON form"


def test_a_version_with_a_hint_without_a_json_form_is_saved_and_not_active(world: World) -> None:
    save(world, 1)
    odd = Functions(world.database, formless(LOCK), world.settings)
    text = "import threading\ndef work(lock: threading.Lock):\n    return 2\n"
    row = odd.save(text)
    assert (row["number"], row["active"], row["findings"][0]["kind"]) == (2, 1, "unconvertible_type")
    assert row["inactive_reason"] == f"work v2 cannot run as an execution: {LOCK}"
    assert odd.save(text)["created"] is False
    with pytest.raises(Conflict, match=r"(?s)cannot run as an execution.*a Lock has no JSON form.*--force"):
        world.functions.activate("work", 2)
    assert odd.save(text, force=True)["active"] == 2
    assert world.functions.history("work")[0]["reason"] == "force"


@pytest.mark.parametrize(
    ("reported", "declared"),
    [
        (LOCK, {"input_parameters": [{"name": "lock"}]}),
        ("what it returns: a Lock has no JSON form", {"output_parameters": {"type": "object"}}),
    ],
)
def test_a_declared_schema_takes_the_place_of_a_hint_without_a_json_form(
    world: World, reported: str, declared: dict[str, Any]
) -> None:
    odd = Functions(world.database, formless(reported), world.settings)
    row = odd.save("def work(lock):\n    return 2\n", **declared)
    assert (row["active"], row["inactive_reason"]) == (1, None)


@pytest.mark.parametrize(
    ("error", "declared"),
    [
        (MISSING, {"files": {"read": ["/data"]}}),
        ("NameError: name 'clean' is not defined", {"dependencies": ["clean"]}),
        ("NameError: name 'np' is not defined", {"imports": ["numpy as np"]}),
        ("RuntimeError: no address", {"hosts": ["api.example.com"]}),
        (MISSING, {"requirements": ["nosuchmod"]}),
    ],
)
def test_what_a_real_run_may_do_better_is_active(world: World, error: str, declared: dict[str, Any]) -> None:
    row = Functions(world.database, failing(error), world.settings).save("def work(): ...\n", **declared)
    assert (row["active"], row["inactive_reason"]) == (1, None)
    assert row["warnings"][0] == f"work: executing its source failed: {error}"


def test_any_error_counts_for_a_version_without_rights(world: World) -> None:
    row = Functions(world.database, failing("ZeroDivisionError: division by zero"), world.settings).save(
        "x = 1 / 0\ndef work(): ...\n"
    )
    assert (row["active"], row["findings"][0]["detail"]) == (None, "ZeroDivisionError")


def activation(version: int, reason: str = "save") -> dict[str, Any]:
    return {"version": version, "reason": reason}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], []),
        ([activation(1)], []),
        ([activation(2), activation(1)], [1]),
        ([activation(1, "rollback"), activation(2), activation(1)], []),
        ([activation(3), activation(1, "rollback"), activation(2), activation(1)], [1]),
        ([activation(3), activation(1, "activate"), activation(2), activation(1)], [1, 2]),
        ([activation(1, "force"), activation(2), activation(1)], [2]),
    ],
)
def test_the_history_decides_what_a_rollback_considers(
    history: list[dict[str, Any]], expected: list[int]
) -> None:
    assert earlier_versions(history) == expected


def test_activations_and_rollbacks_at_once_leave_one_open_activation(make_world: Any) -> None:
    worlds = [make_world() for _ in range(4)]
    world = worlds[0]
    for number in range(1, 9):
        save(world, number)
    errors: list[BaseException] = []
    start = threading.Barrier(ACTIVATORS + ROLLBACKERS)

    def run(act: Callable[[World, random.Random], Any], number: int) -> None:
        chance = random.Random(number)
        start.wait()
        for _ in range(ROUNDS):
            try:
                act(worlds[number % len(worlds)], chance)
            except FunctoryError as error:
                if not isinstance(error, Conflict):
                    errors.append(error)
            except BaseException as error:
                errors.append(error)

    def activate(one: World, chance: random.Random) -> None:
        one.functions.activate("work", chance.randint(1, 8))

    def roll_back(one: World, chance: random.Random) -> None:
        one.functions.rollback("work", keep_mark=chance.random() < 0.7)

    threads = [
        threading.Thread(target=run, args=(activate if number < ACTIVATORS else roll_back, number))
        for number in range(ACTIVATORS + ROLLBACKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    check(world)
    rows = world.rows(schema.activation)
    assert [row["version"] for row in rows if row["ended_at"] is None] == [active(world)]
    events = world.rows(schema.event, schema.event.c.type.in_(["function.activated", "version.marked"]))
    bad: set[int] = set()
    for event in sorted(events, key=lambda row: row["id"]):
        if event["type"] == "version.marked":
            bad.add(event["data"]["version"])
        else:
            assert event["data"]["version"] not in bad, "a bad version was activated without force"
    assert len(rows) == 8 + sum(event["type"] == "function.activated" for event in events)
