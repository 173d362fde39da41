"""Defects of triggers: lineage, joins, and loops that nothing stopped."""

from collections import Counter

import pytest

from tests.support.babyagi_functions import add, states, suppressed
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]


def test_defect_12_lineage_cannot_be_forged_or_broken_by_the_caller(engine):
    add(engine, "def h(**given): return sorted(given)\n")
    add(engine, "def u(event): return None\n")
    engine.register_trigger("u-after-h", on={"type": ["execution.succeeded"], "subject": ["h"]}, function="u")
    forged = {
        "parent_log_id": 123456,
        "triggered_by_log_id": 7,
        "executed_functions": ["u"],
        "root_id": "x",
        "parent_id": "y",
        "depth": 9,
    }
    row = engine.run("h", forged)
    assert row["result"] == sorted(forged), "these are ordinary arguments"
    assert (row["parent_id"], row["event_id"], row["root_id"], row["depth"], row["chain"]) == (
        None,
        None,
        row["id"],
        0,
        [],
    )
    engine.settle()
    (triggered,) = engine.executions.list(function="u")
    assert (triggered["root_id"], triggered["depth"]) == (row["id"], 1)
    add(
        engine,
        "from functory import call, emit\n"
        "def outer():\n    emit('note.made')\n    return call('h', root_id='forged')\n",
    )
    outer = engine.run("outer", {})
    (child,) = engine.executions.list(parent_id=outer["id"])
    assert (child["root_id"], child["depth"]) == (outer["id"], 1)
    assert engine.events.list(type_="note.made")[0]["cause_execution_id"] == outer["id"]


def test_defect_18_a_function_that_is_a_dependency_still_runs_as_a_trigger(engine):
    add(engine, "def x(value=None): return 'x'\n")
    add(engine, "def a(): return x()\n", dependencies=["x"])
    engine.register_trigger(event_type="function_executed", target_function="a", trigger_function="x")
    row = engine.run("a", {})
    engine.settle()
    assert [span["function"] for span in engine.executions.spans(row["id"])] == ["x"]
    assert states(engine, "x") == ["succeeded"]


def test_defect_18_a_join_below_a_diamond_may_run_for_each_side_and_both_are_recorded(engine):
    for name in ("left", "right", "join"):
        add(engine, f"def {name}(value=None): return '{name}'\n")
    add(engine, "def top(): return 1\n")
    for target, function in (("top", "left"), ("top", "right"), ("left", "join"), ("right", "join")):
        engine.register_trigger(
            event_type="function_executed", target_function=target, trigger_function=function
        )
    row = engine.run("top", {})
    engine.settle()
    assert Counter(e["function"] for e in engine.executions.list(root_id=row["id"])) == {
        "top": 1,
        "left": 1,
        "right": 1,
        "join": 2,
    }
    joins = engine.executions.list(function="join")
    assert sorted(engine.lineage.cause(j["id"])["event"]["subject"] for j in joins) == ["left", "right"]


def test_the_first_loop_a_trigger_on_itself_that_calls_itself_through_the_engine_stops_at_its_limits(engine):
    """There: 73 + 73 executions until the interpreter's recursion limit, all of them roots, all `success`."""
    add(engine, "from functory import call\ndef z(value=None): return call('zt')\n", limits={"timeout": 60})
    add(engine, "from functory import call\ndef zt(value=None): return call('z')\n", limits={"timeout": 60})
    row = engine.run("z", {}, timeout=patient(100))
    assert row["state"] == "failed"
    assert "depth" in row["error"]["message"]
    tree = engine.executions.list(root_id=row["id"], limit=1000)
    assert sorted(e["depth"] for e in tree) == list(range(engine.settings.max_depth + 1)), (
        "exactly one a level, 16 deep"
    )
    assert [e["id"] for e in tree if e["parent_id"] is None] == [row["id"]]
    assert {e["state"] for e in tree} == {"failed"}, "no level pretends that it succeeded"

    add(engine, "def s(value=None): return 1\n")
    loop = {"event_type": "function_executed", "target_function": "s", "trigger_function": "s"}
    engine.register_trigger(**loop)
    first = engine.run("s", {})
    engine.settle()
    assert states(engine, "s") == ["succeeded"] * 2
    (stopped,) = [f for f in suppressed(engine) if f["root_id"] == first["id"]]
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("own_event", 0, 1)
    assert stopped["count"] == 1
    (node,) = [
        n for top in engine.lineage.tree(first["id"]).nodes for n in top.walk() if n.kind == "suppressed"
    ]
    assert node.row["trigger"] == "s-on-function_executed-s"


BUMP = """
    from functory import functions
    def bump(event):
        row = functions.get("bump")
        functions.update("bump", metadata={"n": row["metadata"].get("n", 0) + 1})
"""


@pytest.mark.parametrize(("guards", "reason", "versions", "limit"), [
    ({"acknowledge_cycle": 1}, "own_event", 1, 0),
    ({"acknowledge_cycle": 3, "allow_self": True}, "cycle", 3, 3),
    ({"acknowledge_cycle": 64, "allow_self": True, "max_depth": 5}, "depth", 5, 5),
])  # fmt: skip
def test_the_second_loop_a_function_that_updates_itself_stops_at_exactly_its_limit(
    engine, guards, reason, versions, limit
):
    """There: 160 versions in 27 seconds until a RecursionError that was swallowed."""
    add(engine, BUMP, permissions=["functions:read", "functions:write"])
    engine.register_trigger(
        "on-update", on={"type": ["function.updated"], "subject": ["bump"]}, function="bump", guards=guards
    )
    engine.functions.update("bump", metadata={"n": 100})
    engine.settle()
    assert states(engine, "bump") == ["succeeded"] * versions
    assert len(engine.functions.versions("bump")) == 2 + versions
    (stopped,) = suppressed(engine)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == (reason, limit, limit + 1)
    assert stopped["count"] == 1
    (reported,) = engine.events.list(type_="trigger.suppressed", payloads=True)
    assert reported["data"]["chain"] == ["on-update"] * (versions + 1)
    assert reported["root_id"] == stopped["root_id"]


def test_the_second_loop_stops_at_the_budget_of_its_root_when_nothing_else_stops_it(tmp_path):
    from tests.support.world import embedded

    with embedded(tmp_path, root_budget=4, max_depth=64) as engine:
        add(engine, BUMP, permissions=["functions:read", "functions:write"])
        engine.register_trigger(
            "on-update",
            on={"type": ["function.updated"], "subject": ["bump"]},
            function="bump",
            guards={"acknowledge_cycle": 64, "allow_self": True},
        )
        engine.functions.update("bump", metadata={"n": 100})
        engine.settle()
        assert states(engine, "bump") == ["succeeded"] * 4
        (stopped,) = suppressed(engine)
        assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("budget", 4, 5)
        assert stopped["count"] == 1


def test_a_function_without_the_right_to_change_functions_cannot(engine):
    add(engine, BUMP)
    row = engine.run("bump", {"event": None})
    assert row["state"] == "failed"
    assert "the permission functions:read is not declared" in row["error"]["message"]
    assert engine.functions.get("bump")["number"] == 1


@pytest.mark.parametrize("spelling", ["babyagi", "ours"])
def test_both_spellings_of_register_trigger_run_a_function_when_another_one_is_updated(
    engine, module, spelling
):
    fields = {
        "babyagi": 'event_type="function_updated", target_function="data_processor", '
        'trigger_function="validate_processor", '
                   'conditions={"auto_validate": True}',
        "ours": '"validate", on={"type": ["function.updated"], "subject": ["data_processor"], '
                '"data": {"metadata": {"auto_validate": [True]}}}, function="validate_processor"',
    }[spelling]  # fmt: skip
    module(
        f"pack_{spelling}",
        f"""
        from functory import register_function, register_trigger

        @register_function(metadata={{"auto_validate": True}})
        def data_processor(rows: list) -> int:
            return len(rows)

        @register_function()
        def validate_processor(event: dict) -> str:
            return event["type"] + " " + event["data"]["function"]

        register_trigger({fields})
    """,
    )
    engine.settle()
    assert states(engine, "validate_processor") == []
    engine.functions.update("data_processor", metadata={"auto_validate": True, "n": 1})
    engine.settle()
    (row,) = engine.executions.list(function="validate_processor", payloads=True)
    assert row["result"] == "function.updated data_processor"
    engine.functions.update("data_processor", metadata={"auto_validate": False})
    engine.settle()
    assert len(engine.executions.list(function="validate_processor")) == 1
