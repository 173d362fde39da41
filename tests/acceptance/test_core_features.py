"""The main job, the same on every deployment: functions, events, triggers, executions, lineage.

Each test is a sentence of what Functory is for. One deployment serves the module; every test uses
function names of its own.
"""

from __future__ import annotations

import threading

import pytest

from functory.client.functory import Functory
from functory.engine.errors import Conflict, ExecutionFailed, Invalid, NotFound
from tests.support.patience import patient

WAIT = patient(30.0)


def finished(functory: Functory, function: str, count: int = 1) -> list[dict]:
    """The executions of ``function``, oldest first, once ``count`` of them are finished."""
    pause = threading.Event()
    for _ in range(int(WAIT / 0.05)):
        rows = [
            r
            for r in functory.executions.list(function=function, limit=100, payloads=True)
            if r["finished_at"]
        ]
        if len(rows) >= count:
            return rows[::-1]
        pause.wait(0.05)
    raise AssertionError(
        f"{function} did not finish {count} times: {functory.executions.list(function=function)}"
    )


def suppressed(functory: Functory, trigger: str) -> list[dict]:
    """The first suppressed firing of a trigger for each root and reason, once there is one."""
    pause = threading.Event()
    for _ in range(int(WAIT / 0.05)):
        rows = [row for row in functory.suppressions.list(1000) if row["trigger"] == trigger]
        if rows:
            firings = [one for row in rows for one in functory.lineage.firings(row["first_event_id"])]
            return [one for one in firings if one["trigger"] == trigger]
        pause.wait(0.05)
    raise AssertionError(f"{trigger} was not suppressed")


def run(functory: Functory, function: str, **kwargs: object) -> dict:
    """The finished execution of one call, whatever its state."""
    handle = functory.submit(function, **kwargs)
    return functory.executions.wait([handle.id], WAIT)[0]


def test_a_call_runs_the_function_and_returns_its_result(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}(a: int, b: int = 2) -> int:\n    return a * b\n")
    assert functory.call(name, 21) == 42
    assert functory.call(name, a=5, b=5) == 25


def test_updating_a_function_runs_its_validator(functory: Functory, name: str) -> None:
    """The first sentence of the project: function updated → trigger, in the spelling of BabyAGI's users."""
    functory.functions.save(
        f"def validate_{name}(event):\n    return [event['subject'], event['data']['version']]\n"
    )
    functory.functions.save(f"def {name}():\n    return 1\n", metadata={"auto_validate": True})
    functory.register_trigger(
        event_type="function_updated",
        target_function=name,
        trigger_function=f"validate_{name}",
        conditions={"auto_validate": True},
    )
    functory.functions.update(name, source=f"def {name}():\n    return 2\n")
    row = finished(functory, f"validate_{name}")[0]
    assert row["result"] == [name, 2]
    assert row["cause"] == "trigger"
    event = functory.events.get(row["event_id"])
    assert (event["type"], event["subject"]) == ("function.updated", name)


def test_a_condition_that_does_not_hold_starts_nothing(functory: Functory, name: str) -> None:
    functory.functions.save(f"def after_{name}(output):\n    return output\n")
    functory.functions.save(f"def {name}(n):\n    return n\n", metadata={"auto_validate": False})
    functory.register_trigger(
        event_type="function_executed",
        target_function=name,
        trigger_function=f"after_{name}",
        conditions={"auto_validate": True},
    )
    functory.register_trigger(
        event_type="function_executed",
        target_function=name,
        trigger_function=f"after_{name}",
        name=f"without-{name}",
    )
    functory.call(name, 7)
    rows = finished(functory, f"after_{name}")
    assert [row["result"] for row in rows] == [7], (
        "the output comes as first argument, once: from the trigger without a condition"
    )


def test_an_output_pattern_starts_a_function_with_typed_input(functory: Functory, name: str) -> None:
    """The second spelling: a pattern, a CEL condition and an input mapping."""
    functory.functions.save(
        f"def reorder_{name}(sku: str, stock: int, note: str):\n    return [sku, stock, note]\n"
    )
    functory.functions.save(
        f"def {name}(sku, stock):\n    return {{'sku': sku, 'stock': stock}}\n",
        output_patterns={f"low_{name}": {"stock": [{"numeric": ["<", 5]}]}},
    )
    functory.register_trigger(
        f"reorder-{name}",
        on={"type": ["output.matched"], "data": {"pattern": [f"low_{name}"]}},
        function=f"reorder_{name}",
        when="data.output.stock < 3",
        input={
            "sku": "{{ event.data.output.sku }}",
            "stock": "{{ event.data.output.stock }}",
            "note": "from {{ event.subject }}",
        },
    )
    for stock in (9, 4, 2):
        functory.call(name, f"s{stock}", stock)
    assert [row["result"] for row in finished(functory, f"reorder_{name}")] == [["s2", 2, f"from {name}"]]
    matched = functory.events.list(type_="output.matched", subject=name, payloads=True)
    assert sorted(event["data"]["output"]["stock"] for event in matched) == [2, 4]


def test_a_regular_expression_captures_groups_from_text(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}(text):\n    return text\n",
        output_patterns={"version": r"v(?P<major>\d+)\.(?P<minor>\d+)"},
    )
    functory.call(name, "released v3.11 today")
    functory.call(name, "nothing here")
    (event,) = functory.events.list(type_="output.matched", subject=name, payloads=True)
    assert event["data"]["groups"] == {"major": "3", "minor": "11"}


def test_an_execution_keeps_input_output_times_logs_and_dependency_versions(
    functory: Functory, name: str
) -> None:
    functory.functions.save(f"def low_{name}(x):\n    return x + 1\n")
    functory.functions.save(
        f"def mid_{name}(x):\n    return low_{name}(x) * 10\n", dependencies=[f"low_{name}"]
    )
    functory.functions.save(
        f"def {name}(x):\n    print('working on', x)\n    return {{'value': mid_{name}(x)}}\n",
        dependencies=[f"mid_{name}"],
    )
    row = run(functory, name, x=4)
    assert (row["state"], row["input"], row["result"]) == ("succeeded", {"x": 4}, {"value": 50})
    assert row["created_at"] <= row["started_at"] <= row["finished_at"]
    assert sorted(row["versions"]) == sorted([f"{name}@1", f"low_{name}@1", f"mid_{name}@1"])
    spans = functory.executions.spans(row["id"])
    assert [(s["function"], s["input"], s["output"]) for s in sorted(spans, key=lambda s: s["seq"])] == [
        (f"mid_{name}", {"x": 4}, 50),
        (f"low_{name}", {"x": 4}, 5),
    ]
    inner = next(s for s in spans if s["function"] == f"low_{name}")
    assert inner["parent_seq"] == next(s["seq"] for s in spans if s["function"] == f"mid_{name}")
    assert inner["duration_seconds"] >= 0
    assert [(line["stream"], line["text"]) for line in functory.executions.logs(row["id"])] == [
        ("stdout", "working on 4")
    ]
    (attempt,) = functory.executions.attempts(row["id"])
    assert (attempt["outcome"], attempt["number"]) == ("succeeded", 1)


def test_a_failure_keeps_its_traceback_with_source_lines(functory: Functory, name: str) -> None:
    functory.functions.save(f"def helper_{name}(x):\n    return 1 / x  # the culprit\n")
    functory.functions.save(f"def {name}(x):\n    return helper_{name}(x)\n", dependencies=[f"helper_{name}"])
    row = run(functory, name, x=0)
    assert row["state"] == "failed"
    assert row["error"]["type"] == "ZeroDivisionError"
    assert "the culprit" in row["error"]["traceback"]
    assert f"helper_{name}@1" in row["error"]["traceback"]
    with pytest.raises(ExecutionFailed, match="ZeroDivisionError"):
        functory.call(name, 0)


def test_a_pinned_dependency_stays_and_a_floating_one_moves(functory: Functory, name: str) -> None:
    functory.functions.save(f"def parse_{name}():\n    return 'old'\n")
    functory.functions.save(
        f"def pinned_{name}():\n    return parse_{name}()\n", dependencies=[f"parse_{name}@1"]
    )
    functory.functions.save(
        f"def floats_{name}():\n    return parse_{name}()\n", dependencies=[f"parse_{name}"]
    )
    functory.functions.update(f"parse_{name}", source=f"def parse_{name}():\n    return 'new'\n")
    assert functory.call(f"pinned_{name}") == "old"
    assert functory.call(f"floats_{name}") == "new"
    assert functory.call(f"parse_{name}@1") == "old"
    functory.functions.rollback(f"parse_{name}")
    assert functory.call(f"floats_{name}") == "old"


def test_parent_and_triggered_by_chains_are_complete(functory: Functory, name: str) -> None:
    functory.functions.save(f"def child_{name}(n):\n    return n * 2\n")
    functory.functions.save(
        f"def {name}(n):\n    from functory import call, emit\n"
        f"    emit('made.{name}', {{'n': call('child_{name}', n)}}, subject='s1')\n    return n\n"
    )
    functory.functions.save(
        f"def heard_{name}(event):\n    from functory import execution\n"
        "    return [event['data']['n'], execution.depth, execution.root_id, execution.triggered_by]\n"
    )
    functory.register_trigger(f"heard-{name}", on={"type": [f"made.{name}"]}, function=f"heard_{name}")
    parent = run(functory, name, n=21)
    (child,) = finished(functory, f"child_{name}")
    (heard,) = finished(functory, f"heard_{name}")
    (event,) = functory.events.list(type_=f"made.{name}")
    assert (child["parent_id"], child["root_id"], child["depth"], child["cause"]) == (
        parent["id"],
        parent["id"],
        1,
        "parent",
    )
    assert (event["cause_execution_id"], event["root_id"], event["subject"]) == (
        parent["id"],
        parent["id"],
        "s1",
    )
    assert (heard["event_id"], heard["root_id"], heard["depth"], heard["cause"]) == (
        event["id"],
        parent["id"],
        1,
        "trigger",
    )
    assert heard["result"] == [42, 1, parent["id"], event["id"]]
    tree = functory.lineage.tree(heard["id"])
    (top,) = tree.nodes
    assert top.id == parent["id"]
    below = {node.id for node in top.walk()}
    assert {child["id"], heard["id"], event["id"]} <= below
    made = next(node for node in top.walk() if node.id == event["id"])
    assert [node.id for node in made.children] == [heard["id"]], "what an event started hangs below it"


def test_a_function_that_triggers_itself_is_stopped(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}(event):\n    from functory import emit\n    emit('again.{name}', event['data'])\n"
    )
    functory.register_trigger(f"self-{name}", on={"type": [f"again.{name}"]}, function=name)
    functory.emit(f"again.{name}", {"n": 1})
    (firing,) = suppressed(functory, f"self-{name}")
    assert firing["reason"] == "own_event"
    assert len(finished(functory, name)) == 1


def test_two_triggers_that_feed_each_other_are_stopped_at_their_limit(functory: Functory, name: str) -> None:
    for here, there in (("a", "b"), ("b", "a")):
        functory.functions.save(
            f"def {here}_{name}(event):\n    from functory import emit\n"
            f"    emit('{there}.{name}', event['data'], subject=event['subject'])\n"
        )
    functory.register_trigger(f"on-a-{name}", on={"type": [f"a.{name}"]}, function=f"a_{name}")
    with pytest.raises(
        Conflict, match=f"on-b-{name} → b_{name} → a.{name} → on-a-{name} → a_{name} → b.{name} → on-b-{name}"
    ):
        functory.register_trigger(f"on-b-{name}", on={"type": [f"b.{name}"]}, function=f"b_{name}")
    functory.register_trigger(
        f"on-b-{name}", on={"type": [f"b.{name}"]}, function=f"b_{name}", guards={"acknowledge_cycle": 1}
    )
    functory.emit(f"a.{name}", {}, subject="one")
    (firing,) = suppressed(functory, f"on-a-{name}")
    assert (firing["reason"], firing["limit_value"], firing["actual_value"]) == ("cycle", 1, 2)
    assert [link["name"] for link in firing["chain"]] == [f"on-a-{name}", f"on-b-{name}"]
    assert len(finished(functory, f"a_{name}")) == len(finished(functory, f"b_{name}")) == 1
    reported = functory.events.list(type_="trigger.suppressed", subject=f"on-a-{name}", payloads=True)
    assert reported[0]["data"]["chain"] == [f"on-a-{name}", f"on-b-{name}", f"on-a-{name}"]
    assert reported[0]["state"] == "routed", "it can start nothing itself"


def test_a_paused_trigger_is_recorded_as_suppressed_and_fires_after_resume(
    functory: Functory, name: str
) -> None:
    functory.functions.save(f"def {name}(event):\n    return event['data']\n")
    functory.register_trigger(f"p-{name}", on={"type": [f"tick.{name}"]}, function=name)
    functory.triggers.pause(f"p-{name}", note="holiday")
    functory.emit(f"tick.{name}", 1)
    (firing,) = suppressed(functory, f"p-{name}")
    assert (firing["reason"], firing["detail"]) == ("trigger_paused", "holiday")
    functory.triggers.resume(f"p-{name}")
    functory.emit(f"tick.{name}", 2)
    assert [row["result"] for row in finished(functory, name)] == [2]


def test_an_event_with_the_same_key_is_one_event(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}(event):\n    return event['id']\n")
    functory.register_trigger(f"k-{name}", on={"type": [f"key.{name}"]}, function=name)
    ids = {functory.emit(f"key.{name}", {}, dedup_key=f"order-{name}") for _ in range(3)}
    assert len(ids) == 1
    functory.emit(f"key.{name}", {}, dedup_key=f"other-{name}")
    assert len(finished(functory, name, 2)) == 2


def test_submit_and_gather_run_in_parallel_on_several_slots(functory: Functory, name: str) -> None:
    functory.functions.save(f"def leaf_{name}(n):\n    return n * n\n")
    functory.functions.save(
        f"def {name}(many):\n    from functory import submit, gather\n"
        f"    return gather(*[submit('leaf_{name}', n) for n in range(many)])\n"
    )
    assert functory.submit(name, 12).result(WAIT) == [n * n for n in range(12)]
    assert {row["parent_id"] for row in functory.executions.list(function=f"leaf_{name}")} == {
        functory.executions.list(function=name)[0]["id"]
    }


def test_waiting_parents_never_starve_their_children(functory: Functory, name: str) -> None:
    """A chain of calls far deeper than there are slots, several times at once."""
    functory.functions.save(
        f"def {name}(n):\n    from functory import call\n    return 0 if n == 0 else 1 + call('{name}', n - 1)\n"
    )
    handles = [functory.submit(name, 8) for _ in range(3)]
    assert [handle.result(patient(60)) for handle in handles] == [8, 8, 8]


def test_endless_calls_end_at_the_depth_limit(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}(n=0):\n    from functory import call\n    return call('{name}', n + 1)\n"
    )
    row = run(functory, name)
    assert row["state"] == "failed"
    rows = functory.executions.list(function=name, limit=100)
    assert max(r["depth"] for r in rows) == functory.settings.max_depth
    assert len(rows) == functory.settings.max_depth + 1
    deepest = max(rows, key=lambda r: r["depth"])
    assert "depth" in deepest["error"]["message"]


def test_async_functions_and_async_dependencies_work(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"async def dep_{name}(x):\n    import asyncio\n    await asyncio.sleep(0.01)\n    return x + 1\n"
    )
    functory.functions.save(
        f"async def {name}(x):\n    import asyncio\n"
        f"    return sum(await asyncio.gather(dep_{name}(x), dep_{name}(x + 1)))\n",
        dependencies=[f"dep_{name}"],
    )
    row = run(functory, name, x=1)
    assert row["result"] == 5
    assert len(functory.executions.spans(row["id"])) == 2


def test_a_result_without_a_json_form_fails_once_and_names_its_place(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}():\n    return {{'rows': [1, {{'when': object()}}]}}\n", limits={"retries": 3}
    )
    row = run(functory, name)
    assert (row["state"], row["attempt"], row["result"]) == ("failed", 1, None)
    assert row["error"]["type"] == "NotSerializable"
    assert "$.rows[1].when: an object has no JSON form" in row["error"]["message"]


def test_a_failing_function_is_tried_again_and_succeeds(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}():\n    from functory import execution\n    if execution.attempt < 3:\n"
        "        raise ValueError('not yet')\n"
        "    return execution.attempt\n",
        limits={"retries": 2, "retry_delay": 0.05},
    )
    row = run(functory, name)
    assert (row["state"], row["result"], row["attempt"], row["failures"]) == ("succeeded", 3, 3, 2)
    assert [a["outcome"] for a in functory.executions.attempts(row["id"])] == [
        "failed",
        "failed",
        "succeeded",
    ]
    types = [e["type"] for e in functory.events.list(subject=name, limit=50)]
    assert types.count("execution.attempt_failed") == 2
    assert types.count("execution.succeeded") == 1


def test_an_emission_of_a_repeated_attempt_is_one_event(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}():\n    from functory import emit, execution\n    emit('once.{name}', {{'x': 1}})\n"
        "    if execution.attempt == 1:\n        raise ValueError('after the emission')\n",
        limits={"retries": 1, "retry_delay": 0.01},
    )
    assert run(functory, name)["state"] == "succeeded"
    assert len(functory.events.list(type_=f"once.{name}")) == 1


def test_a_function_that_runs_too_long_is_killed_with_all_it_started(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}():\n    while True:\n        pass\n", limits={"timeout": 0.5})
    row = run(functory, name)
    assert (row["state"], row["error"]["type"]) == ("timed_out", "TimedOut")


def test_a_running_execution_can_be_cancelled(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}():\n    import time\n    time.sleep(60)\n", limits={"timeout": 120})
    handle = functory.submit(name)
    pause = threading.Event()
    while functory.executions.get(handle.id)["state"] != "running":
        pause.wait(0.02)
    functory.executions.cancel(handle.id)
    row = functory.executions.wait([handle.id], WAIT)[0]
    assert row["state"] == "cancelled"
    with pytest.raises(Conflict):
        functory.executions.cancel(handle.id)


def test_a_replay_is_a_new_execution_of_the_same_version_and_input(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}(x):\n    return ['v1', x]\n")
    first = run(functory, name, x=3)
    functory.functions.update(name, source=f"def {name}(x):\n    return ['v2', x]\n")
    again = functory.executions.wait([functory.executions.replay(first["id"])["id"]], WAIT)[0]
    newest = functory.executions.wait([functory.executions.replay(first["id"], latest=True)["id"]], WAIT)[0]
    assert (again["result"], again["replay_of"]) == (["v1", 3], first["id"])
    assert newest["result"] == ["v2", 3]
    assert functory.executions.get(first["id"])["result"] == ["v1", 3]


def test_secrets_reach_only_functions_that_declare_them_and_are_redacted(
    functory: Functory, name: str
) -> None:
    secret = f"KEY_{name}"
    source = (
        f"def {name}():\n    from functory import secret\n    print('got', secret('{secret}'))\n"
        f"    return secret('{secret}')\n"
    )
    functory.functions.save(source, secrets=[secret])
    assert run(functory, name)["error"]["type"] == "NotFound", (
        "a missing secret is reported before anything runs"
    )
    functory.secrets.set(secret, "hunter2-is-long")
    row = run(functory, name)
    assert row["result"] == "***"
    assert functory.executions.logs(row["id"])[0]["text"] == "got ***"
    functory.functions.update(name, secrets=[])
    assert run(functory, name)["error"]["type"].endswith("Refused")


def test_state_is_kept_between_executions(functory: Functory, name: str) -> None:
    functory.functions.save(
        f"def {name}():\n    from functory import state\n    n = state.get('n', 0) + 1\n"
        "    state.set('n', n)\n    return n\n"
    )
    assert [functory.call(name) for _ in range(3)] == [1, 2, 3]


def test_an_input_that_does_not_fit_is_refused_before_anything_runs(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}(n: int):\n    return n\n")
    with pytest.raises(Invalid, match="integer"):
        functory.call(name, "seven")
    with pytest.raises(Invalid, match="required"):
        functory.call(name)
    with pytest.raises(NotFound, match="missing_"):
        functory.call(f"missing_{name}")
    assert functory.executions.list(function=name) == []


def test_a_wrong_input_from_a_trigger_is_a_visible_failure(functory: Functory, name: str) -> None:
    functory.functions.save(f"def {name}(n: int):\n    return n\n")
    functory.register_trigger(
        f"w-{name}", on={"type": [f"w.{name}"]}, function=name, input={"n": "{{ event.data.n }}"}
    )
    functory.emit(f"w.{name}", {"n": "seven"})
    functory.emit(f"w.{name}", {"other": 1})
    functory.emit(f"w.{name}", {"n": 7})
    assert [row["input"] for row in finished(functory, name)] == [{"n": 7}]
    firings = suppressed(functory, f"w-{name}")
    assert {firing["reason"] for firing in firings} == {"input_error"}
    assert any("not of type" in firing["detail"] for firing in firings)
    failed = functory.events.list(type_="trigger.failed", subject=f"w-{name}", payloads=True)
    assert [event["data"]["reason"] for event in failed] == ["input_error"]
