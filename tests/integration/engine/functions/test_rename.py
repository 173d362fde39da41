"""A rename keeps every version, and refuses or bridges what uses the former name."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.agents.agents import Agents
from functory.engine.database import audit, schema
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound
from functory.engine.functions.annotations import Annotations
from functory.engine.functions.rename import RenameReport
from functory.engine.maintenance.invariants import verify
from functory.engine.releases.gate_policies import GatePolicies
from functory.engine.releases.proposals import Proposals
from tests.support.canaries import FUNCTION, CanaryWorld
from tests.support.granted_claims import SERVED
from tests.support.world import World, names

pytest_plugins = ["tests.support.world"]

STATEFUL = "from functory import state\n\ndef work(n=1):\n    return state.get('k')\n"


def save(world: World, number: int, **declared: Any) -> dict[str, Any]:
    return world.functions.save(f"def work(n: int = 1):\n    return [n, {number}]\n", **declared)


def contents(world: World) -> dict[str, list[dict[str, Any]]]:
    """All rows of what a rename may write."""
    tables = (
        "function", "function_version", "version_mark", "activation", "annotation", "state", "grant_approval",
        "event", "audit",
    )  # fmt: skip
    return {name: world.rows(getattr(schema, name)) for name in tables}


def check(world: World) -> None:
    assert [one.examples for one in verify(world.database, world.settings) if one.examples] == []


def uses(report: RenameReport) -> list[str]:
    return [str(one) for one in report.uses]


def test_the_new_name_has_all_versions_and_what_belongs_to_them(world: World) -> None:
    for number in (1, 2, 3):
        save(world, number, limits={"timeout": number}, metadata={"n": number}, labels=["team:a"])
    world.functions.rollback("work", author="ada")
    world.functions.mark("work", 1, "good", reason="a year of use", author="ada")
    Annotations(world.database).describe("work", "Works.", author="ada")
    world.state.set("work", "seen", {"a": 1})
    before = world.functions.versions("work")
    world.advance(60)
    with world.database.write() as tx:
        # Rows do not lie in the order of their ids.
        past = tx.rows(sa.select(schema.activation).order_by(schema.activation.c.id.desc()))
        tx.execute(sa.delete(schema.activation))
        tx.insert(schema.activation, past)

    report = world.functions.rename("work", "labour", author="bob")

    assert (report.former, report.name, report.version, report.versions) == ("work", "labour", 2, 3)
    assert (report.alias_version, report.is_refused) == (None, False)
    after = world.functions.versions("labour")
    kept = ("number", "active", "latest", "limits", "metadata", "input_schema", "author", "environment")
    assert [[row[key] for key in kept] for row in after] == [[row[key] for key in kept] for row in before]
    assert [row["mark"] and row["mark"]["mark"] for row in after] == ["bad", None, "good"]
    sources = [world.functions.get("labour", number)["source"] for number in (1, 2, 3)]
    assert sources == [f"def labour(n: int = 1):\n    return [n, {number}]\n" for number in (1, 2, 3)]
    history = [
        [row[key] for key in ("version", "reason", "author")] for row in world.functions.history("work")
    ]
    assert [
        [row[key] for key in ("version", "reason", "author")] for row in world.functions.history("labour")
    ] == history
    found = Annotations(world.database).get("labour")
    assert found is not None and found["value"] == "Works."
    assert world.state.get("labour", "seen") == ({"a": 1}, 1)
    labels = {row["name"]: row["labels"] for row in world.rows(schema.function)}
    assert labels == {"work": ["team:a"], "labour": ["team:a"]}
    # A version that is saved again is known by its content.
    same = world.functions.save(sources[1], limits={"timeout": 2}, metadata={"n": 2})
    assert (same["number"], same["created"]) == (2, False)
    assert world.functions.rollback("labour")["number"] == 1
    check(world)


def test_the_former_name_keeps_what_has_happened_and_is_disabled(world: World) -> None:
    save(world, 1)
    ended = world.start("work")
    world.finish(world.claim(ended))
    world.functions.rename("work", "labour", author="bob")
    assert world.functions.get("work")["state"] == "disabled"
    assert world.functions.get("work", 1)["source"].startswith("def work(")
    assert world.rows(schema.execution)[0]["function"] == "work"
    with pytest.raises(Conflict, match="work is disabled"):
        world.start("work")
    assert world.claim(world.start("labour")).version.name == "labour"
    # It can be taken back: the former function is as it was.
    world.functions.enable("work")
    assert world.functions.get("work")["active"] == 1


def test_a_rename_is_told_in_events_and_in_the_audit(world: World) -> None:
    save(world, 1)
    world.functions.rename("work", "labour", author="bob")
    assert world.types("function.", "work") == ["function.created", "function.disabled", "function.renamed"]
    assert world.types("function.", "labour") == ["function.created"]
    event = world.rows(schema.event, schema.event.c.type == "function.renamed")[0]
    assert event["data"] == {
        "function": "work", "renamed_to": "labour", "version": 1, "alias_version": None, "author": "bob",
    }  # fmt: skip
    entries = [(row["author"], row["action"], row["subject"]) for row in world.rows(schema.audit)][1:]
    assert sorted(entries) == [
        ("bob", "function.created", "labour"),
        ("bob", "function.disabled", "work"),
        ("bob", "function.rename", "work"),
    ]


def test_rights_that_an_operator_granted_stay_granted(make_world: Any) -> None:
    world = make_world(**SERVED)
    save(world, 1, files={"read": ["/srv/a", "/srv/b"]})
    world.grant_approvals.allow("work", 1, "read", "/srv/a", reason="needed", author="ada")
    world.functions.rename("work", "labour")
    effective, pending = world.grant_approvals.effective_and_pending(world.functions.get("labour"))
    assert (effective.read, pending.read) == (("/srv/a",), ("/srv/b",))
    assert world.claim(world.start("labour")).grants.read == ("/srv/a",)


def test_every_use_of_the_name_is_listed_and_refuses_the_rename(world: World) -> None:
    world.function("work")
    world.function("caller", dependencies=["work@1"])
    world.function("undone", compensate="work")
    world.functions.save("def texts():\n    from functory import call\n    return call('work', 1)\n")
    world.functions.save(
        "import shop\ndef modular():\n    return shop.run()\n", modules={"shop": 'NAME = "work"\n'}
    )
    world.functions.save("def other():\n    'How it works, work by work.'\n    return 'workshop'\n")
    world.trigger("runs", "work", {"type": ["order.created"]})
    world.trigger("listens", "other", {"type": ["execution.failed"], "data": {"function": ["work"]}})
    world.trigger("source", "other", {"type": ["x"], "source": ["/functory/functions/work"]})
    world.trigger("asks", "other", {"type": ["x"]}, when='data.name == "work"')
    world.trigger("unrelated", "other", {"type": ["work.done"], "data": {"function": ["works"]}})
    Agents(world.database).add("clerk", {"function": "other", "tools": ["work"]}, author="ada")
    world.start("work")
    before = contents(world)

    report = world.functions.rename("work", "labour", dry_run=True)

    assert uses(report) == [
        "function caller", "function undone", "trigger runs", "function modular (in its text)",
        "function texts (in its text)", "trigger asks (in its definition)", "trigger listens (in its definition)",
        "trigger source (in its definition)", "agent clerk", "execution 1 (open)",
    ]  # fmt: skip
    assert report.is_refused
    with pytest.raises(Conflict) as refused:
        world.functions.rename("work", "labour")
    assert refused.value.why == "it is used by " + ", ".join(uses(report))
    assert refused.value.try_.endswith("functory function rename work labour --alias")
    assert contents(world) == before


def test_no_alias_is_advised_where_there_can_be_none(world: World) -> None:
    world.functions.save("RATE = 2\n\ndef work(n: int = RATE):\n    return n\n")
    world.functions.save("def caller():\n    return work()\n", dependencies=["work"])
    report = world.functions.rename("work", "labour", dry_run=True)
    assert report.is_refused and "RATE comes from its source" in report.obstacles[0]
    with pytest.raises(Conflict, match="function caller, and there can be no alias") as refused:
        world.functions.rename("work", "labour")
    assert "--alias" not in refused.value.try_


def test_an_alias_keeps_the_signature_and_what_uses_the_name(world: World) -> None:
    for number in (1, 2):
        save(world, number, limits={"timeout": 5, "retries": 2}, secrets=["KEY"], requirements=[])
    world.function("caller", dependencies=["work"])
    world.function("pinned", dependencies=["work@1"])
    world.trigger("runs", "work", {"type": ["order.created"]})
    opened = world.start("work")
    known = world.functions.get("work")

    report = world.functions.rename("work", "labour", alias=True, author="bob")

    assert (report.version, report.alias_version) == (2, 3)
    alias = world.functions.get("work")
    assert (alias["number"], alias["active"], alias["state"], alias["author"]) == (3, 3, "enabled", "bob")
    for key in ("parameters", "input_schema", "output_schema", "limits", "is_async"):
        assert alias[key] == known[key], key
    assert [one["name"] for one in alias["dependencies"]] == ["labour"]
    assert world.functions.dependents("labour") == ["function work"]
    assert world.types("function.", "work")[-2:] == ["function.updated", "function.renamed"]
    # Those that are open, pinned or triggered run as before.
    assert world.claim(opened).version.source == known["source"]
    assert set(world.claim(world.start("pinned")).codes) == {"pinned@1", "work@1"}
    assert set(world.claim(world.start("caller")).codes) == {"caller@1", "work@3", "labour@2"}
    claim = world.claim(world.start("work"))
    assert set(claim.codes) == {"work@3", "labour@2"}
    assert claim.grants.secrets == ("KEY",)
    check(world)
    # The alias can be rolled back, and the new name stays.
    assert world.functions.rollback("work")["source"] == known["source"]


def test_an_alias_of_a_disabled_function_is_disabled(world: World) -> None:
    save(world, 1)
    world.functions.disable("work")
    world.functions.rename("work", "labour", alias=True)
    assert [world.functions.get(name)["state"] for name in ("work", "labour")] == ["disabled", "disabled"]


@pytest.mark.parametrize("where", ["source", "dependency", "rows"])
def test_there_is_no_alias_of_a_function_with_a_state(world: World, where: str) -> None:
    if where == "source":
        world.functions.save(STATEFUL)
    elif where == "dependency":
        world.functions.save(STATEFUL.replace("work", "below"))
        world.function("work", dependencies=["below"])
    else:
        world.function("work")
        world.state.set("work", "k", 1)
    with pytest.raises(Conflict, match="work uses its state"):
        world.functions.rename("work", "labour", alias=True)
    assert not world.functions.rename("work", "labour").is_refused


def test_there_is_no_alias_of_a_function_with_a_compensation(world: World) -> None:
    world.function("undo")
    world.function("work", compensate="undo")
    with pytest.raises(Conflict, match="work has a compensation"):
        world.functions.rename("work", "labour", alias=True)


@pytest.mark.parametrize("alias", [False, True])
def test_a_gate_policy_with_the_name_must_have_the_new_one_as_well(world: World, alias: bool) -> None:
    save(world, 1)
    policies = GatePolicies(world.database)
    policies.set("strict", {}, functions=["work"], author="ada")
    with pytest.raises(Conflict, match="the gate policy strict names work: let it name labour as well"):
        world.functions.rename("work", "labour", alias=alias)
    policies.set("strict", {}, functions=["work", "labour"], author="ada")
    world.functions.rename("work", "labour", alias=alias)


@pytest.mark.parametrize("alias", [False, True])
def test_an_open_proposal_is_decided_first_and_one_that_was_rejected_stays_so(
    world: World, alias: bool
) -> None:
    save(world, 1)
    proposals = Proposals(world.database, world.functions)
    source = "def work(n: int = 1):\n    return 'proposed'\n"
    tests = [{"input": {"n": 2}, "equals": "proposed"}]
    made = proposals.create(source, tests=tests, replaces=True, author="agent")
    with pytest.raises(Conflict, match=f"the proposal {made['id']} is open"):
        world.functions.rename("work", "labour", alias=alias)
    proposals.withdraw(made["id"], author="agent")
    world.functions.rename("work", "labour", alias=alias)
    with pytest.raises(Conflict, match=r"labour v2 is marked bad\n.*has not passed the gate"):
        world.functions.activate("labour", 2)
    check(world)


@pytest.mark.parametrize("alias", [False, True])
def test_an_open_canary_is_ended_first(world: World, alias: bool) -> None:
    shop = CanaryWorld(world)
    shop.start()
    with pytest.raises(Conflict, match=f"{FUNCTION} has an open canary"):
        world.functions.rename(FUNCTION, "labour", alias=alias)
    assert world.functions.get(FUNCTION)["active"] == 1


@pytest.mark.parametrize(
    ("new", "error", "message"),
    [
        ("work", Conflict, "the name work is taken"),
        ("taken", Conflict, "the name taken is taken\nanother function has it"),
        ("gone", Conflict, "the name gone is taken\nit was the name of a function that is deleted"),
        ("class", Invalid, "keyword"),
        ("state", Invalid, "reserved"),
        ("a-b", Invalid, "not a function name"),
        ("n", Invalid, "work v1 cannot be renamed\nthe source of work uses the name n: line 1"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(
    world: World, new: str, error: type[FunctoryError], message: str
) -> None:
    save(world, 1)
    for name in ("taken", "gone"):
        world.function(name)
    world.functions.delete("gone")
    before = contents(world)
    for dry_run in (True, False):
        with pytest.raises(error, match=message):
            world.functions.rename("work", new, dry_run=dry_run)
    assert contents(world) == before


def test_a_function_that_would_use_itself_is_refused(world: World) -> None:
    world.function("work", dependencies=["labour"])
    with pytest.raises(Conflict, match="work v1 uses a function labour"):
        world.functions.rename("work", "labour")
    world.function("work", compensate="labour")
    with pytest.raises(Conflict, match="work v1 uses a function labour"):
        world.functions.rename("work", "labour")


def test_a_function_without_an_active_version_or_none_at_all_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="'work' not found"):
        world.functions.rename("work", "labour")
    save(world, 1, activate=False)
    with pytest.raises(Conflict, match="work has no active version"):
        world.functions.rename("work", "labour")


@pytest.mark.parametrize("alias", [False, True])
def test_a_rename_that_fails_at_its_end_writes_nothing(
    world: World, alias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(world, 1)
    world.function("caller", dependencies=["work"] if alias else [])
    before = contents(world)
    append = audit.append

    def fail(tx: Any, author: str, action: str, *rest: Any, **options: Any) -> None:
        append(tx, author, action, *rest, **options)
        if action == "function.rename":
            raise OSError("the disk is full")

    monkeypatch.setattr(audit, "append", fail)
    with pytest.raises(OSError, match="the disk is full"):
        world.functions.rename("work", "labour", alias=alias)
    assert contents(world) == before


def test_a_caller_with_labels_sees_only_how_many_others_use_it(world: World) -> None:
    world.function("work", labels=["team:a"])
    world.function("mine", dependencies=["work"], labels=["team:a"])
    world.function("theirs", dependencies=["work"], labels=["team:b"])
    world.trigger("foreign", "work", {"type": ["x"]})
    report = world.functions.rename("work", "labour", dry_run=True, scope=["team:a"])
    assert uses(report) == ["function mine", "use 2 (outside of your labels)"]
    assert names(world.functions.list()) == ["mine", "theirs", "work"]
