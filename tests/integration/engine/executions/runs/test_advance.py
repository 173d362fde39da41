"""Runs of agents: steps, what they wait for, ends, limits. On SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functory import step
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.executions import cancellation
from functory.engine.executions.runs import begin
from functory.engine.maintenance import canceller
from tests.support.runs import RunsWorld, failure, text
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def world(make_world: Callable[..., World]) -> RunsWorld:
    return RunsWorld(make_world())


def ask_then_done(memo: Any, given: Any) -> Any:
    """A step function: asks once, and its answer is the result."""
    if given is None:
        return step.model(f"Do: {memo['goal']}")
    return step.done(given.get("text") or given)


def test_a_step_that_is_done_ends_the_run(world: RunsWorld) -> None:
    run = world.start("greet", memo={"name": "ada"})
    world.work(lambda memo, given: step.done({"hello": memo["name"], "goal": memo["goal"]}))
    row = world.get(run)
    assert (row["state"], row["result"], row["checked"]) == (
        "succeeded",
        {"hello": "ada", "goal": "greet"},
        None,
    )
    assert world.world.types("run.") == ["run.started", "run.succeeded"]
    world.check()


def test_a_plain_value_is_the_result(world: RunsWorld) -> None:
    run = world.start()
    world.work(lambda memo, given: 42)
    assert world.get(run)["result"] == 42


def test_while_a_model_thinks_nothing_is_open_but_rows(world: RunsWorld) -> None:
    run = world.start()
    world.work(ask_then_done)
    assert world.get(run)["state"] == "waiting_model"
    assert world.work(ask_then_done) == 0
    world.check()
    assert world.answer("an answer") == 1
    assert world.get(run)["state"] == "running"
    world.work(ask_then_done)
    row = world.get(run)
    assert (row["state"], row["result"], row["step"]) == ("succeeded", "an answer", 2)
    assert world.steps(run) == ["start", "model"]
    assert (row["spent"]["calls"], row["spent"]["usd_spent"]) == (1, 20_000)
    world.check()


def test_the_steps_of_a_long_run_are_siblings_and_need_no_depth(world: RunsWorld) -> None:
    run = world.start()
    counted = 40

    def count(memo: Any, given: Any) -> Any:
        number = memo.get("n", 0) + 1
        return step.done(number) if number == counted else step.again({**memo, "n": number})

    while world.work(count):
        pass
    assert world.get(run)["result"] == counted
    rows = world.runs.steps(run)
    assert [row["number"] for row in rows] == list(range(1, counted + 1))
    world.check()


def test_a_memo_is_kept_until_a_step_gives_another(world: RunsWorld) -> None:
    run = world.start()
    seen = []

    def code(memo: Any, given: Any) -> Any:
        seen.append(memo)
        return [step.again(), step.again({"a": 1}), step.again(), step.done()][len(seen) - 1]

    while world.work(code):
        pass
    assert seen == [{"goal": "a goal"}, {"goal": "a goal"}, {"a": 1}, {"a": 1}]
    assert world.get(run)["state"] == "succeeded"


def test_messages_are_stored_with_the_call_and_not_with_the_step(world: RunsWorld) -> None:
    run = world.start()
    world.work(lambda memo, given: step.model([{"role": "user", "content": "long " * 1000}]))
    (row,) = world.runs.steps(run)
    assert "long" not in str(row["result"]) and row["result"]["functory.next"]["request"]["messages"] == 1
    assert all("long" not in str(event["data"]) for event in world.world.rows(schema.event))


def test_tools_run_side_by_side_and_each_call_has_one_result(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.functions.save("def add(a: int, b: int):\n    return a + b\n")
    plain.functions.save("def broken():\n    return None\n")
    plain.function("secret_one")
    world = RunsWorld(plain, tools=["add", "broken"])
    run = world.start()
    calls = [
        {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}},
        {"id": "c2", "name": "add", "arguments": {"a": "x"}},
        {"id": "c3", "name": "broken", "arguments": {}},
        {"id": "c4", "name": "secret_one", "arguments": {}},
        {"id": "c5", "name": "nothing", "arguments": {}},
        {"id": "c6", "name": "add", "arguments": '{"a": 1'},
    ]
    got: list[Any] = []

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.tools(calls)
        got.append(given)
        return step.done()

    world.work(code)
    assert world.get(run)["state"] == "waiting_children"
    world.check()
    for claim in plain.worker.claim_any(10):
        if claim.row.function == "add":
            plain.finish(claim, result=3)
        else:
            plain.finish(claim, "failed", error={"type": "ValueError", "message": "it is broken"})
    while world.work(code):
        pass
    (given,) = got
    assert given["kind"] == "tools"
    assert [result["id"] for result in given["results"]] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert [result["ok"] for result in given["results"]] == [True, False, False, False, False, False]
    errors = [result.get("error", {}).get("message", "") for result in given["results"]]
    assert given["results"][0]["value"] == 3
    assert "does not fit" in errors[1] and errors[2] == "it is broken"
    assert "may not use 'secret_one'" in errors[3] and "may not use 'nothing'" in errors[4]
    assert "no JSON object" in errors[5]
    assert world.get(run)["spent"]["tool_calls"] == 6
    world.check()


def test_a_long_result_of_a_tool_is_cut(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("read")
    world = RunsWorld(plain, tools=["read"])
    run = world.start()
    got: list[Any] = []

    def code(memo: Any, given: Any) -> Any:
        got.append(given)
        return step.tools([{"name": "read"}]) if given is None else step.done()

    world.work(code)
    world.work(code, read=lambda: "x" * 100_000)
    world.work(code)
    (result,) = got[1]["results"]
    assert len(result["value"]) == 8_000 and result["shortened"] == 100_002
    assert world.get(run)["state"] == "succeeded"


def test_tools_by_name_are_described_to_the_model(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.functions.save("def add(a: int, b: int):\n    return a + b\n", metadata={"description": "Adds."})
    world = RunsWorld(plain, tools=["add"])
    run = world.start()
    world.work(lambda memo, given: step.model("add", tools=["add"]))
    from functory.engine.agents.calls import Calls

    calls = Calls(plain.database, plain.settings)
    (call,) = calls.list(root_id=run)
    (tool,) = calls.get(call["id"])["request"]["tools"]
    assert (tool["name"], tool["description"]) == ("add", "Adds.")
    assert tool["parameters"]["required"] == ["a", "b"]


def test_an_answer_with_tool_calls_leads_to_tools_and_back(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("add")
    world = RunsWorld(plain, tools=["add"])
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.model("1 + 2?", tools=["add"])
        if given["kind"] == "model" and given["tool_calls"]:
            return step.tools(given["tool_calls"])
        if given["kind"] == "tools":
            return step.model(f"the tool says {given['results'][0]['value']}")
        return step.done(given["text"])

    world.work(code)
    world.answer(text("", tools=[{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}]))
    world.work(code)
    world.work(code, add=lambda a, b: a + b)
    world.work(code)
    world.answer("it is 3")
    world.work(code)
    assert world.get(run)["result"] == "it is 3"
    assert world.steps(run) == ["start", "model", "tools", "model"]
    world.check()


def test_a_question_waits_for_a_person_and_is_answered_once(world: RunsWorld) -> None:
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.ask("Which colour?", choices=["red", "blue"])
        return step.done(given)

    world.work(code)
    (question,) = world.runs.questions()
    assert question["payload"] == {"question": "Which colour?", "choices": ["red", "blue"]}
    assert world.get(run)["state"] == "waiting_person"
    world.check()
    with pytest.raises(Invalid, match="the choices are red, blue"):
        world.runs.answer(question["id"], "green", author="ada")
    world.runs.answer(question["id"], "red", feedback="not blue", author="ada")
    with pytest.raises(Conflict, match="answered by ada"):
        world.runs.answer(question["id"], "blue", author="bob")
    world.work(code)
    assert world.get(run)["result"] == {
        "kind": "answer",
        "decision": "answered",
        "answer": "red",
        "feedback": "not blue",
        "by": "ada",
    }
    world.check()


def test_a_wait_for_a_person_of_eight_days_costs_no_time_of_the_tree(world: RunsWorld) -> None:
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.ask("May I?", expires=30 * 86_400)
        return step.model("go") if given["kind"] == "answer" else step.done(given["text"])

    world.work(code)
    world.world.advance(8 * 86_400)
    (question,) = world.runs.questions()
    world.runs.answer(question["id"], "yes", author="ada")
    world.work(code)
    world.answer("done")
    world.work(code)
    assert world.get(run)["result"] == "done"
    world.check()


def test_a_question_that_other_answers_expires(world: RunsWorld) -> None:
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        return step.ask("May I?", expires=60) if given is None else step.done(given["decision"])

    world.work(code)
    assert world.runs.expire_questions() == 0
    world.world.advance(61)
    assert world.runs.expire_questions() == 1
    world.work(code)
    assert world.get(run)["result"] == "expired"
    world.check()


def test_a_run_sleeps_without_a_process(world: RunsWorld) -> None:
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        return step.done("awake") if memo.get("slept") else step.wait(3600, {"slept": True})

    world.work(code)
    assert world.work(code) == 0
    world.world.advance(3601)
    assert world.work(code) == 1
    assert world.get(run)["result"] == "awake"


def test_an_error_is_an_observation_and_three_in_a_row_are_a_failure(world: RunsWorld) -> None:
    run = world.start()
    seen: list[Any] = []
    for _ in range(3):
        (claim,) = world.world.worker.claim_any(1)
        seen.append(claim.row.input["given"])
        world.world.finish(claim, "failed", error={"type": "ValueError", "message": "no such file"})
    assert seen[0] is None
    assert seen[1] == {
        "kind": "problem",
        "error": {"state": "failed", "type": "ValueError", "message": "no such file"},
    }
    row = world.get(run)
    assert (row["state"], row["errors"], row["detail"]["message"]) == ("failed", 3, "no such file")
    assert world.world.types("run.") == ["run.started", "run.failed"]
    world.check()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"functory.next": {"do": "fly"}}, "no directive"),
        ({"functory.next": {"do": "model"}}, "it has no request"),
        ({"functory.next": {"do": "tools", "calls": []}}, "at least one call"),
        ({"functory.next": {"do": "again", "extra": 1}}, "it has no extra"),
        ({"functory.next": {"do": "again", "memo": "x" * 70_000}}, "the memo has"),
        ({"functory.next": {"do": "model", "request": {"messages": "x", "model": "none"}}}, "may not ask"),
        ({"functory.next": {"do": "wait", "seconds": -1}}, "wrong seconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_directive_is_told_to_the_next_step(world: RunsWorld, returned: Any, message: str) -> None:
    run = world.start()
    world.work(lambda memo, given: returned)
    (claim,) = world.world.worker.claim_any(1)
    assert message in claim.row.input["given"]["error"]["message"]
    world.world.finish(claim, result=step.done())
    assert world.get(run)["state"] == "succeeded"
    world.check()


def test_a_model_that_fails_is_told_to_the_next_step(world: RunsWorld) -> None:
    run = world.start()
    world.work(ask_then_done)
    world.answer(failure(problem="401 wrong key"))
    (claim,) = world.world.worker.claim_any(1)
    error = claim.row.input["given"]["error"]
    assert error["state"] == "failed" and "401 wrong key" in error["message"]
    world.world.finish(claim, result=step.fail("no model"))
    row = world.get(run)
    assert (row["state"], row["detail"]) == ("failed", {"message": "no model"})


def test_an_answer_that_was_lost_is_told_as_unknown_and_not_asked_again(world: RunsWorld) -> None:
    world.start()
    world.work(ask_then_done)
    world.answer(failure("lost"))
    (claim,) = world.world.worker.claim_any(1)
    assert claim.row.input["given"]["error"]["state"] == "unknown"
    assert world.answer() == 0


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"steps": 3}, "steps"),
        ({"usd": 0}, "usd"),
        ({"calls": 2}, "calls"),
        ({"tokens": 10}, "tokens"),
        ({"seconds": 100}, "seconds"),
    ],
    ids=["steps", "usd", "calls", "tokens", "seconds"],
)
def test_a_limit_stops_a_run_and_says_which_one(
    make_world: Callable[..., World], limits: Any, reason: str
) -> None:
    world = RunsWorld(make_world(), limits={"steps": 10, **limits})
    run = world.start()

    def for_ever(memo: Any, given: Any) -> Any:
        return step.model(f"after {given}", max_tokens=10)

    for number in range(12):
        world.work(for_ever)
        world.answer(f"answer {number}")
        world.world.advance(20)
    row = world.get(run)
    assert (row["state"], row["reason"]) == ("stopped", reason)
    assert row["detail"]["message"]
    assert row["result"] is None
    assert world.world.types("run.") == ["run.started", "run.stopped"]
    world.check()


@pytest.mark.parametrize(("kind", "limit"), [("tools", "tool_calls"), ("children", "children")])
def test_tools_and_children_are_counted(make_world: Callable[..., World], kind: str, limit: str) -> None:
    plain = make_world()
    plain.function("poll")
    world = RunsWorld(plain, tools=["poll"], limits={limit: 2})
    run = world.start()

    def for_ever(memo: Any, given: Any) -> Any:
        return step.tools([{"name": "poll"}]) if kind == "tools" else step.children([("poll", {})])

    for _ in range(8):
        world.work(for_ever, poll=lambda: None)
    row = world.get(run)
    assert (row["state"], row["reason"], row["step"]) == ("stopped", limit, 3)
    world.check()


def test_checks_decide_whether_a_run_has_succeeded(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("is_right")
    world = RunsWorld(plain, checks=["is_right"])
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        return step.done("wrong" if given is None else "right")

    check: dict[str, Any] = {"is_right": lambda result, memo: {"ok": result == "right", "problem": "no"}}
    world.work(code)
    assert world.get(run)["state"] == "waiting_children"
    while world.work(code, **check):
        pass
    row = world.get(run)
    assert (row["state"], row["result"], row["checked"]) == ("succeeded", "right", True)
    assert world.steps(run) == ["start", "checks"]
    world.check()


def test_a_result_that_no_check_accepts_needs_a_human(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("is_right")
    world = RunsWorld(plain, checks=["is_right"])
    run = world.start()
    while world.work(lambda memo, given: step.done("wrong"), is_right=lambda result, memo: False):
        pass
    row = world.get(run)
    assert (row["state"], row["checked"], row["result"]) == ("needs_human", False, "wrong")
    assert "run.succeeded" not in world.world.types("run.")
    world.check()


def test_children_are_functions_and_agents_and_share_the_meter(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("count")
    plain.function("helper", "memo, given=None")
    world = RunsWorld(plain, tools=["count"])
    world.agents.add("helper", {"function": "helper", "model": "small"}, author="ada")
    world.agents.update("solve", {"agents": ["helper"]}, author="ada")
    run = world.start()
    got: list[Any] = []

    def code(memo: Any, given: Any) -> Any:
        if memo["goal"] == "help":
            return step.model("help") if given is None else step.done(given["text"])
        if given is None:
            return step.children(
                [("count", {}), ("agent:helper", {"goal": "help"}), ("agent:other", {"goal": "x"})]
            )
        got.append(given)
        return step.done()

    world.work(code)
    world.work(code, count=lambda: 7)
    world.answer("helped")
    while world.work(code):
        pass
    (given,) = got
    assert [result["ok"] for result in given["results"]] == [True, True, False]
    assert [result.get("value") for result in given["results"]] == [7, "helped", None]
    assert world.get(run)["spent"]["calls"] == 1
    (child,) = [row for row in world.runs.list(root_id=run) if row["id"] != run]
    assert (child["agent"], child["parent_run_id"], child["state"]) == ("helper", run, "succeeded")
    world.check()


def test_any_child_is_enough_where_one_is_needed(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("fast")
    plain.function("slow")
    world = RunsWorld(plain, tools=["fast", "slow"])
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.children([("slow", {}), ("fast", {})], need="any")
        return step.done([(result["name"], result["ok"]) for result in given["results"]])

    world.work(code)
    claims = {claim.row.function: claim for claim in plain.worker.claim_any(10)}
    plain.finish(claims["fast"], result=1)
    plain.finish(claims["slow"], "cancelled")
    world.work(code)
    assert world.get(run)["result"] == [["slow", False], ["fast", True]]
    world.check()


def test_a_paused_run_starts_no_step_until_it_is_resumed(world: RunsWorld) -> None:
    run = world.start()
    world.work(ask_then_done)
    world.runs.pause(run, author="ada")
    world.answer("an answer")
    assert world.get(run)["state"] == "paused"
    assert world.work(ask_then_done) == 0
    world.check()
    world.world.advance(2 * 86_400)
    world.runs.resume(run, author="ada")
    world.work(ask_then_done)
    assert world.get(run)["result"] == "an answer"
    assert world.world.types("run.") == ["run.started", "run.paused", "run.resumed", "run.succeeded"]
    with pytest.raises(Conflict, match="it has ended"):
        world.runs.pause(run, author="ada")
    world.check()


@pytest.mark.parametrize("at", ["queued", "running", "model", "person", "children"])
def test_a_run_is_cancelled_wherever_it_is(make_world: Callable[..., World], at: str) -> None:
    plain = make_world()
    plain.function("work")
    world = RunsWorld(plain, tools=["work"])
    run = world.start()
    first = {
        "model": step.model("x"),
        "person": step.ask("May I?"),
        "children": step.children([("work", {})]),
    }
    claim = None
    if at == "running":
        (claim,) = plain.worker.claim_any(1)
    elif at != "queued":
        world.work(lambda memo, given: first[at])
    world.runs.cancel(run, author="ada")
    if claim is not None:
        plain.finish(claim, "cancelled")
    assert world.get(run)["state"] == "cancelled"
    assert world.work(lambda memo, given: step.done()) == 0 and world.answer() == 0
    assert world.runs.questions() == []
    assert world.world.types("run.") == [
        "run.started",
        *(["run.waiting"] if at == "person" else []),
        "run.cancelled",
    ]
    world.check()


def test_a_step_that_is_cancelled_cancels_its_run(world: RunsWorld) -> None:
    run = world.start()
    cancellation.cancel(world.world.database, run, "ada")
    row = world.get(run)
    assert (row["state"], row["detail"]) == ("cancelled", {"message": "cancelled by the user ada"})
    world.check()


def test_a_cancel_of_a_tree_ends_a_run_that_waits_for_a_person(world: RunsWorld) -> None:
    run = world.start()
    world.work(lambda memo, given: step.ask("May I?"))
    assert world.get(run)["state"] == "waiting_person"
    world.world.executions.cancel(run, tree=True, author="ada")
    while canceller.advance(world.world.database)[0]:
        pass
    row = world.get(run)
    assert (row["state"], row["detail"]) == ("cancelled", {"message": "cancelled by the user ada"})
    assert world.runs.questions() == []
    world.check()


def test_a_step_whose_worker_is_lost_is_run_again_and_the_model_is_asked_once(world: RunsWorld) -> None:
    run = world.start()
    (claim,) = world.world.worker.claim_any(1)
    from functory.engine.errors import Stale
    from functory.engine.maintenance.lost_workers import reap

    world.world.advance(3600)
    reap(world.world.database, cancel_grace=5)
    with pytest.raises(Stale):
        world.world.finish(claim, result=step.model("x"))
    world.work(ask_then_done)
    assert world.answer("once") == 1
    world.work(ask_then_done)
    assert world.get(run)["result"] == "once"
    world.check()


def test_a_run_that_was_started_with_a_key_is_started_once(world: RunsWorld) -> None:
    first = world.start(idempotency_key="k")
    assert world.start(idempotency_key="k") == first
    assert len(world.runs.list()) == 1


def test_limits_of_a_run_are_never_above_those_of_its_agent(make_world: Callable[..., World]) -> None:
    world = RunsWorld(make_world(), limits={"steps": 5, "usd": 1})
    with pytest.raises(Invalid, match="above that of the agent"):
        world.start(limits={"steps": 6})
    run = world.start(limits={"steps": 2, "usd": 0.5})
    assert (world.get(run)["max_steps"], world.get(run)["spent"]["usd_limit"]) == (2, 500_000_000)


def test_an_agent_that_cannot_run_is_refused_at_once(world: RunsWorld) -> None:
    with pytest.raises(NotFound, match="agent 'other' not found"):
        world.runs.start("other", "x", author="ada")
    with pytest.raises(Invalid, match="not stored\nnothing"):
        world.agents.add("other", {"function": "nothing"}, author="ada")
    with pytest.raises(Invalid, match="wrong goal"):
        world.start("  ")
    world.world.function("takes_nothing", "")
    world.agents.add("wrong", {"function": "takes_nothing"}, author="ada")
    with pytest.raises(Invalid, match="does not fit"):
        world.runs.start("wrong", "x", author="ada")
    world.agents.set_state("solve", "disabled", author="ada")
    with pytest.raises(Conflict, match="is disabled"):
        world.start()
    assert world.runs.list() == []


def test_runs_keep_the_version_of_their_agent(world: RunsWorld) -> None:
    first = world.start()
    world.agents.update("solve", {"limits": {"steps": 7}}, author="ada")
    second = world.start()
    assert [world.get(run)["max_steps"] for run in (first, second)] == [50, 7]
    assert [row["number"] for row in world.agents.versions("solve")] == [2, 1]


def test_the_events_of_a_run_belong_to_its_tree(world: RunsWorld) -> None:
    run = world.start()
    world.work(ask_then_done)
    world.answer("an answer")
    world.runs.cancel(run, author="ada")
    events = [row for row in world.world.rows(schema.event) if row["type"].startswith("run.")]
    assert [row["type"] for row in events] == ["run.started", "run.cancelled"]
    assert {row["root_id"] for row in events} == {run}
    assert all(row["cause_execution_id"] for row in events)


def test_a_trigger_on_the_end_of_runs_that_starts_runs_is_bounded(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("again")
    world = RunsWorld(plain)
    plain.trigger("loop", "again", {"type": ["run.failed"]})
    world.start()
    started = 0
    for _ in range(100):
        plain.route()
        claims = plain.worker.claim_any(10)
        if not claims:
            break
        for claim in claims:
            if claim.row.function == "solve":
                plain.finish(claim, result=step.fail("no"))
            else:
                with plain.database.write() as tx:
                    begin.of_agent(tx, "solve", "again", plain.settings, author="", parent=claim.cause)
                started += 1
                plain.finish(claim)
    assert 0 < started <= plain.settings.max_depth
    world.check()


def test_code_that_asks_by_itself_is_charged_to_its_agent_and_user(world: RunsWorld) -> None:
    world.start(user="ada")
    (claim,) = world.world.worker.claim_any(1)
    from functory.engine.agents import requests
    from functory.engine.agents.calls import Caller, Calls

    calls = Calls(world.world.database, world.world.settings)
    request = requests.chat({"messages": "x", "model": "small"})
    row = calls.ask(request, Caller.of(claim.cause), number=1, nth=1)
    assert (row["agent"], row["user_name"]) == ("solve", "ada")


def test_a_paused_run_keeps_the_answer_of_a_person(world: RunsWorld) -> None:
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        return step.ask("May I?") if given is None else step.done(given["answer"])

    world.work(code)
    world.runs.pause(run, author="ada")
    (question,) = world.runs.questions()
    world.runs.answer(question["id"], "yes", author="bob")
    assert world.get(run)["state"] == "paused" and world.work(code) == 0
    world.runs.resume(run, author="ada")
    world.work(code)
    assert world.get(run)["result"] == "yes"
    world.check()


def test_a_run_that_repeats_itself_gets_a_notice_and_is_stopped(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.function("look")
    world = RunsWorld(plain, tools=["look"])
    run = world.start()
    notices: list[Any] = []

    def code(memo: Any, given: Any) -> Any:
        notices.append((given or {}).get("notice"))
        return step.tools([{"name": "look"}])

    while world.work(code, look=lambda: "nothing"):
        pass
    row = world.get(run)
    assert (row["state"], row["reason"], row["detail"]["detector"]) == ("stopped", "loop", "identical_call")
    assert row["detail"]["steps"] == [1, 2, 3, 4]
    assert notices == [None, None, None, "the same request had the same result 3 times"]
    world.check()


@pytest.mark.parametrize("waits", [True, False], ids=["with a pause", "with another answer"])
def test_a_run_that_polls_is_let_alone(make_world: Callable[..., World], waits: bool) -> None:
    plain = make_world()
    plain.function("look")
    world = RunsWorld(plain, tools=["look"], limits={"steps": 200})
    run = world.start()
    looks = 0

    def look() -> Any:
        nonlocal looks
        looks += 1
        return "ready" if looks == 30 else "not yet" if waits else f"{looks} of 30"

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.tools([{"name": "look"}])
        if given["results"][0]["value"] == "ready":
            return step.done("ready")
        return step.wait(60) if waits else step.again()

    for _ in range(200):
        world.work(code, look=look)
        world.world.advance(60)
    assert world.get(run)["result"] == "ready"
    world.check()


def test_a_run_is_told_to_finish_when_a_limit_is_nearly_used(make_world: Callable[..., World]) -> None:
    world = RunsWorld(make_world(), limits={"steps": 5})
    world.start()
    notices: list[Any] = []

    def code(memo: Any, given: Any) -> Any:
        notices.append((given or {}).get("notice"))
        return step.model(f"question {len(notices)}")

    for number in range(6):
        world.work(code)
        world.answer(f"answer {number}")
    assert notices[:3] == [None, None, None]
    assert notices[3:] == [
        "80% of the limit steps is used: finish now",
        "100% of the limit steps is used: finish now",
    ]
